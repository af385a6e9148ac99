"""A program's ``broker`` object in the words of a profile: what it asks for, and what the broker is told.

Rules
* A word is a field of ``BrokerSpec`` or ``PolicySpec``. What has its default is not asked for. Nobody relies on a
  sweep, and generations are told apart, not asked for: without a word both are left alone.
* ``{value}`` is the field; of a table (``timestamping``, ``redelivery``) its own fields are the placeholders. A
  policy's words say ``{match}`` where it holds, or hold everywhere.
* ``memory_limit_bytes`` is the whole broker's, or with ``{match}`` its destinations'; where both can be told, that of
  destinations is ``policies.memory_limit_bytes``. One is never told in the words of the other.
* What nobody can configure is declared in the way that promises least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec

from brokerproof.conformance.brokers.apart import ACTIVEMQ, Letters
from brokerproof.conformance.brokers.placeholders import filled
from brokerproof.conformance.brokers.switches import BY_CLAIM
from brokerproof.conformance.experiment.configuration import BrokerSpec, PolicySpec, TimeStampingSpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.conformance.experiment.policies import divided, entry_for, matches, specificity

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.profile import Located

_SWEEP = "expire_period_ms"
_UNASKED = {"generation", "policies"}
#: What nobody need tell a broker: it does so, or programs do without.
_UNTOLD = {_SWEEP, *BY_CLAIM}
_OF_BROKER = [name for name in BrokerSpec.__struct_fields__ if name not in _UNASKED]
_OF_POLICY = [name for name in PolicySpec.__struct_fields__ if name != "match"]
_SHARED = set(_OF_BROKER) & set(_OF_POLICY)
WORDS = (*_OF_BROKER, *_OF_POLICY, *(f"policies.{name}" for name in sorted(_SHARED)))
_ALL = ">"
#: What holds without being told, where a capability is claimed.
_ALWAYS = {"prioritized_messages": "priorities"}


class Asked(msgspec.Struct, eq=False):
    """One thing that a program asks for: a word, where it holds ("": the whole broker), and its value."""

    word: str
    match: str
    value: Any

    def values(self) -> dict[str, str]:
        """Its placeholders."""
        fields = msgspec.structs.asdict(self.value) if isinstance(self.value, msgspec.Struct) else {"value": self.value}
        told = {name: _text(value) for name, value in fields.items()}
        return {**told, "match": self.match} if self.match else told


def asked(spec: BrokerSpec, letters: Letters = ACTIVEMQ) -> Iterator[Asked]:
    """Everything that differs from the defaults, or from what a wider policy says, and each policy's sweep.
    ``letters``: what becomes of what dies there without being told.
    """
    plain, policy = BrokerSpec(), PolicySpec()
    for name in _OF_BROKER:
        if getattr(spec, name) != getattr(plain, name):
            yield Asked(name, "", getattr(spec, name))
    for entry in spec.policies:
        for name in _OF_POLICY:
            if name == "dead_letter" and letters.needless(spec, entry.dead_letter):
                continue
            others = [one for one in spec.policies if getattr(one, name) != getattr(policy, name)]
            if name == _SWEEP or entry in others or any(_may_cover(one.match, entry.match) for one in others):
                yield Asked(name, entry.match, getattr(entry, name))


def _may_cover(wider: str, match: str) -> bool:
    """Whether a pattern may cover what a narrower one does."""
    (kind, name), (own_kind, own) = divided(wider), divided(match)
    if specificity(wider) <= specificity(match) or (kind and own_kind and kind != own_kind):
        return False
    return "*" in own or own.endswith(_ALL) or matches(name, own, topic=False)


def _placeholders(word: str) -> list[str]:
    """What the words of a setting may hold."""
    name, found = word.removeprefix("policies."), list[str]()
    for spec in (BrokerSpec, PolicySpec):
        hint = get_type_hints(spec).get(name)
        tables = [one for one in (hint, *get_args(hint)) if isinstance(one, type) and issubclass(one, msgspec.Struct)]
        found += [*(tables[0].__struct_fields__ if tables else ["value"])] if hint is not None else []
    return list(dict.fromkeys([*found, *(["match"] if name in _OF_POLICY else [])]))


class Settings:
    """The ``[settings]`` of a profile."""

    def __init__(self, located: Located) -> None:
        """Raises ``UsageError`` for a word that does not exist."""
        self._located = located
        table = located.profile.settings
        assert not isinstance(table, str), "a class takes the place of this one"
        self._table = table
        self._letters = located.profile.letters
        for word in table:
            if word not in WORDS:
                known = ", ".join(dict.fromkeys(WORDS))
                text = f"no program asks for it; {suggestion(word, WORDS)}known: {known} (docs/program.md)"
                raise located.wrong(f"settings.{word}", text)
            for text in table[word]:
                filled(text, dict.fromkeys(_placeholders(word), ""), located, f"settings.{word}")

    def __contains__(self, word: object) -> bool:
        return word in self._table or f"policies.{word}" in self._table

    def lacking(self, spec: BrokerSpec, *, keeps: bool = False, stamps: bool = False) -> list[str]:
        """What this broker cannot be told, by name. ``keeps``: messages outlive its process; ``stamps``: it stamps."""
        found = []
        for one in asked(spec, self._letters):
            if one.word in _UNTOLD or (one.word == "persistent" and keeps) or self._always(one.word):
                continue
            if one.word == "timestamping" and stamps and one.value == TimeStampingSpec():
                continue
            words = self._words(one)
            if words is None:
                found.append(f"{one.word} of {one.match}" if one.match else one.word)
            elif one.match not in {"", _ALL} and not _says_where(words):
                found.append(f"{one.word} of {one.match} alone")
            elif words and one.match and one.value is None:
                found.append(f"no {one.word} of {one.match} beside that of a wider policy")
        return found

    def _always(self, word: str) -> bool:
        return word not in self and _ALWAYS.get(word) in (self._located.profile.promises.capabilities or ())

    def _words(self, one: Asked) -> list[str] | None:
        """In which words the broker is told of it; None: it cannot be."""
        if one.match and one.word in _SHARED and (own := self._table.get(f"policies.{one.word}")) is not None:
            return own
        words = self._table.get(one.word)
        if words and one.word in _SHARED and bool(one.match) is not _says_where(words):
            return None
        return words

    def arguments(self, spec: BrokerSpec) -> list[str]:
        """The words of the command line, in the order of the settings."""
        return [
            filled(text, one.values(), self._located, f"settings.{one.word}")
            for one in asked(
                msgspec.structs.replace(spec, policies=told_policies(spec, self._located.profile.names.separator)),
                self._letters,
            )
            if not (one.match and one.value is None)  # such a one is refused (``lacking``)
            for text in self._words(one) or ()
        ]

    def effective(self, spec: BrokerSpec, generation: Mapping[str, str], *, stamps: bool = False) -> BrokerSpec:
        """The program's settings as this broker really has them."""
        told = [Asked(name, "", getattr(spec, name)) for name in _OF_BROKER]
        kept = {one.word: one.value for one in told if self._words(one) is not None}
        if stamps:
            kept.setdefault("timestamping", TimeStampingSpec())
        for name in BY_CLAIM:
            kept.setdefault(name, getattr(spec, name))  # as ``casting.py`` found
        sweeps = _SWEEP in self._table
        policies = [entry if sweeps else msgspec.structs.replace(entry, expire_period_ms=0) for entry in spec.policies]
        return BrokerSpec(**{"generation": dict(generation), "policies": policies, **kept})


def _says_where(words: list[str]) -> bool:
    return not words or any("{match}" in text for text in words)


def told_policies(spec: BrokerSpec, separator: str = ".") -> list[PolicySpec]:
    """A program's policies with the patterns that a run's names need: one for ``q0`` must cover ``q0.RUN``, one for
    ``*``, too, but not the dead-letter queue, whose name is its own. The widest comes first: to some brokers what they
    are told last counts, where others look for the narrowest.
    """
    replace, found = msgspec.structs.replace, dict[str, PolicySpec]()
    width = {DEAD_LETTERS: specificity(DEAD_LETTERS)}
    if any(divided(entry.match)[1] == "*" for entry in spec.policies):
        applied = entry_for(spec, DEAD_LETTERS, topic=False) or PolicySpec()
        found[DEAD_LETTERS] = replace(applied, match=DEAD_LETTERS)
    for entry in spec.policies:
        for match in _physical(entry.match, separator):
            if match not in found:
                found[match], width[match] = replace(entry, match=match), specificity(entry.match)
    return sorted(found.values(), key=lambda entry: width[entry.match], reverse=True)


def _physical(match: str, separator: str) -> list[str]:
    if match == DEAD_LETTERS:
        return [match]
    named = match.replace(".", separator)
    if match.endswith("*"):
        return [named, f"{named}{separator}*"]
    return [named if match.endswith(_ALL) else f"{named}{separator}{_ALL}"]


def _text(value: object) -> str:
    """As most command lines spell it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
