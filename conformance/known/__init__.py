"""Known deviations: what a release is known to do against a requirement, with the reason and the source.

Rules
* A deviation is listed per release in ``<broker>-<release>.toml`` and names the corpus programs in which it shows.
* In any run of that broker a violated requirement that is listed becomes *known failure*: it does not turn the run red.
* Every violation of a run needs its excuse: one that is known hides none that is not.
* An entry with ``needs`` excuses only programs that have all of it, one with ``shows`` only a violation that says so,
  and one with ``consumer`` only what such a consumer met: a loss on unsubscribing hides no other loss. So a random
  program with these circumstances is explained, and no other.
  A policy that it needs is the one of the destination that the verdict is about, where that names a plain one.
  Two causes of one requirement are two entries, told apart by what they need or show.
* It *must still fail*: when a named program satisfies the requirement, the entry is stale and the run says so. So a
  list can only shrink by being looked at.
* What shows in some runs only says so (``sometimes``). It is never stale, and excuses nothing but the programs that it
  names: what nobody can make fail on purpose must not hide anything else.
* What only brokerproof's own OpenWire client can show says so (``client``), and must fail where that client plays; the
  rest must fail where it does not, because over another protocol a broker may behave otherwise. Both excuse both.
* The most exact file counts: ``activemq-5.17.2.toml`` before ``activemq-5.17.toml`` before ``activemq-5.toml``. Of a
  release that has none, or beside its own, those entries of the others count whose ``releases`` have it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec, PolicySpec
from brokerproof.conformance.experiment.destinations import is_pattern
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.history import History, Subscribe
from brokerproof.conformance.experiment.policies import entry_for
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import REGISTRY
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind

#: What a verdict's text says of the message that it is about.
_SENT_TO = re.compile(r" sent to (\S+) \(")
#: How it names consumers.
_CONSUMER = re.compile(r"\b(?:at|by|consumer) (\w+/\d+)|\b(\w+/\d+) (?:had|subscribed)")
_RANGE = re.compile(r"(\d+(\.\d+)*)?\.\.(\d+(\.\d+)*)?")
#: What an entry may need: a step by its word, or a part of the set-up.
_STEPS: dict[str, type[msgspec.Struct]] = {str(step.__struct_config__.tag): step for step in REGISTRY}
_KINDS: dict[str, type[msgspec.Struct]] = {
    "broker": BrokerSpec,
    "host": HostSpec,
    "link": LinkSpec,
    "policy": PolicySpec,
    **_STEPS,
}


class Deviation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. ``programs``: corpus programs in which it must show, or was seen if it shows ``sometimes`` only;
    ``releases``: ``A..B``, where it was seen beside its file's release (``5.16`` has ``5.16.7``, a missing end has
    none); ``needs``: what a program must have to show it, each ``STEP``, ``STEP FIELD`` (that is set), ``STEP
    FIELD=VALUE`` or ``STEP FIELD!=VALUE``, with ``broker``, ``host``, ``link`` and ``policy`` beside the steps, or
    several of these with ``|`` between, of which one will do; ``shows``: what the violation's text must say;
    ``consumer``: what the subscription of a consumer that this text names must have, ``FIELD=VALUE`` or
    ``FIELD!=VALUE``; ``source``: where it can be looked up; ``ordered``: the steps that it needs come in that order;
    ``client``: the client that shows it, "" for a program's own; ``whose``: what would have to change.
    """

    requirement: str
    programs: list[str]
    reason: str
    source: str
    needs: list[str] = []
    shows: str = ""
    consumer: str = ""
    releases: str = ""
    sometimes: bool = False
    ordered: bool = False
    client: Literal["", "openwire"] = ""
    whose: Literal["broker", "client", "documentation"] = "broker"

    def __post_init__(self) -> None:
        for need in [one for several in self.needs for one in several.split(" | ")]:
            kind, _, field = need.partition(" ")
            name = field.partition("=")[0].removesuffix("!")
            if kind not in _KINDS or (field and name not in _KINDS[kind].__struct_fields__):
                raise ValueError(
                    f"needs: {need!r} names no step or part of a program, or no field of it (docs/program.md)"
                )
        field, is_, value = self.consumer.partition("=")
        if self.consumer and not (is_ and value and field.removesuffix("!") in Subscribe.__struct_fields__):
            raise ValueError(
                f"consumer: {self.consumer!r} names no field of a subscription; write such as 'ack=client'"
            )
        if self.releases and (self.releases == ".." or not _RANGE.fullmatch(self.releases)):
            raise ValueError(f"releases: {self.releases!r} is no range; write such as '5.16..5.17' or '5.16..'")

    @property
    def circumstances(self) -> tuple[str, ...]:
        """What tells it from other entries: the requirement, and what it excuses of it."""
        return (self.requirement, self.shows, self.consumer, *sorted(self.needs))

    def seen_on(self, release: str) -> bool:
        """Whether ``releases`` has that one."""
        low, dots, high = self.releases.partition("..")
        numbers = _numbers(release)
        first, last = _numbers(low), _numbers(high)
        return bool(dots) and first <= numbers and (not last or numbers[: len(last)] <= last)

    def excuses(self, name: str, program: Program, text: str = "", history: History | None = None) -> bool:
        """Whether a violation in that program, of which the text says that, may be this one."""
        if self.shows not in text or (self.sometimes and name not in self.programs):
            return False
        if self.consumer and history is not None and not _is_met(history, text, self.consumer):
            return False
        policies = _policies_of(program, text)
        fits = all(any(_has(program, policies, one) for one in need.split(" | ")) for need in self.needs)
        return fits and (not self.ordered or _in_order(program, self.needs))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release))


class _File(msgspec.Struct, forbid_unknown_fields=True):
    deviation: list[Deviation]


def _has(program: Program, policies: list[PolicySpec], need: str) -> bool:
    parts = (program.broker, *policies, *program.hosts, *program.links, *program.each_step())
    return any(_is(part, need) for part in parts)


def _is(part: msgspec.Struct, need: str) -> bool:
    """Whether a step, or a part of a set-up, is what is needed."""
    kind, _, condition = need.partition(" ")
    return type(part) is _KINDS[kind] and (not condition or _meets(part, condition))


def _meets(part: msgspec.Struct, condition: str) -> bool:
    """Whether it has the ``FIELD`` (that is set), ``FIELD=VALUE`` or ``FIELD!=VALUE``."""
    field, _, value = condition.partition("=")
    if value:
        return (str(getattr(part, field.removesuffix("!"))) == value) is not field.endswith("!")
    return field in msgspec.to_builtins(part)


def _policies_of(program: Program, text: str) -> list[PolicySpec]:
    """The entry that applies to the destination that a verdict is about; all of them if it names no plain one."""
    said = _SENT_TO.search(text)
    dest = next((one for one in program.destinations if said is not None and one.name == said[1]), None)
    if dest is None or dest.kind not in {"queue", "topic"} or "." in dest.name:
        return program.broker.policies  # several places, or the queue of a virtual topic
    entry = entry_for(program.broker, dest.name, topic=dest.kind == "topic")
    return [entry] if entry is not None else []


def _is_met(history: History, text: str, condition: str) -> bool:
    """Whether a consumer of which a violation speaks is of that kind."""
    return any(_meets(event, condition) for event in _consumers_of(history, text))


def _consumers_of(history: History, text: str) -> list[Subscribe]:
    """The subscriptions of the consumers that a violation names; of none: those of the message's destination."""
    taken = [
        event for event in history.events if isinstance(event, Subscribe) and not event.consumer.startswith("drain/")
    ]
    named = {name for pair in _CONSUMER.findall(text) for name in pair}
    if found := [event for event in taken if event.consumer in named]:
        return found
    said = _SENT_TO.search(text)
    return [event for event in taken if said is None or event.dest == said[1] or is_pattern(event.dest)]


def _in_order(program: Program, needs: list[str]) -> bool:
    """Whether the steps that are needed come one after the other."""
    wanted = [need for need in needs if need.split()[0] in _STEPS]
    for step in program.each_step():
        if wanted and any(_is(step, one) for one in wanted[0].split(" | ")):
            wanted.pop(0)
    return not wanted


class Known:
    """The deviations of one release; ``name`` is the file's. ``client``: who plays the hosts, as in an entry."""

    def __init__(self, name: str, deviations: list[Deviation], *, client: Literal["", "openwire"] = "") -> None:
        self.name = name
        self.client = client
        self.deviations = deviations
        told = [(one.circumstances, one.sometimes, one.client) for one in deviations]
        for place, ((requirement, *_), *_) in enumerate(told):
            if told[place] in told[:place]:
                raise SuiteProblem(
                    f"{name}: {requirement} is listed twice for the same programs; put them into one entry, or say by "
                    "needs, or by shows, what tells the two apart"
                )

    def of(self, requirement: str) -> list[Deviation]:
        """What is known of one requirement."""
        return [one for one in self.deviations if one.requirement == requirement]

    def through_openwire(self) -> Known:
        """The same, where every host is played by our own OpenWire client."""
        return Known(self.name, self.deviations, client="openwire")

    def is_certain(self, deviation: Deviation) -> bool:
        """Whether an entry always shows where this client plays."""
        return deviation.client == self.client and not deviation.sometimes

    def certain(self) -> list[Deviation]:
        """Those entries."""
        return [one for one in self.deviations if self.is_certain(one)]


def load_known(broker: str, folder: Path | None = None) -> Known:
    """The list of a broker by its label (``activemq 5.17.2``); empty if there is none. Raises ``SuiteProblem``."""
    return _load(broker, folder if folder is not None else Path(str(resources.files(__package__))))


@cache
def _load(broker: str, folder: Path) -> Known:
    wanted = broker.replace(" ", "-")
    fitting = [path for path in folder.glob("*.toml") if wanted == path.stem or wanted.startswith(f"{path.stem}.")]
    own = [max(fitting, key=lambda found: len(found.stem))] if fitting else []
    name, _, release = broker.partition(" ")
    paths = [*(path for path in sorted(folder.glob(f"{name}-[0-9]*.toml")) if path not in own), *own]
    lists = [parse_known(path.read_bytes(), path.name) for path in paths]
    mine = {path.name for path in own}
    found = {one.name: [row for row in one.deviations if one.name in mine or row.seen_on(release)] for one in lists}
    # Its own list counts for more than another one, and of two others the later: it is looked at more often.
    entries = {one.circumstances: one for list_ in found.values() for one in list_}
    return Known(", ".join(name for name, list_ in found.items() if list_), list(entries.values()))


def parse_known(data: bytes, name: str) -> Known:
    """Parse one file. Raises ``SuiteProblem`` naming the file and the field."""
    try:
        return Known(name, msgspec.convert(tomllib.loads(data.decode("utf-8")), _File).deviation)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise SuiteProblem(f"{name}: not a list of known deviations: {error}") from None


def apply_known(
    name: str, program: Program, verdicts: list[Verdict], known: Known, history: History | None = None
) -> tuple[list[Verdict], list[str]]:
    """Mark what is known; the verdicts, and a sentence for each entry that should have failed in the program of that
    name and did not. Without the ``history`` it is not known of which consumers the verdicts speak.
    """
    marked = []
    stale = []
    for verdict in verdicts:
        # Who names the program first: of several causes it is that one.
        listed = sorted(known.of(verdict.requirement), key=lambda one: name not in one.programs)
        if listed and verdict.verdict is VerdictKind.VIOLATED:
            marked.append(_marked(verdict, partial(_excuse, listed, name, program, history)))
        else:
            marked.append(verdict)
        must_fail = any(name in one.programs and known.is_certain(one) for one in listed)
        if must_fail and verdict.verdict is VerdictKind.SATISFIED:
            stale.append(
                f"{known.name}: {verdict.requirement} is listed as a known deviation but holds in {name}; "
                "remove the entry or its program"
            )
    return marked, stale


def _excuse(
    listed: list[Deviation], name: str, program: Program, history: History | None, text: str
) -> Deviation | None:
    return next((one for one in listed if one.excuses(name, program, text, history)), None)


def _marked(verdict: Verdict, excuse: Callable[[str], Deviation | None]) -> Verdict:
    """A violated verdict: known if all that violates it is, else the first that is not."""
    known = excuse(verdict.text)
    if known is None:
        return verdict
    for place, other in enumerate(verdict.further):
        if excuse(other.text) is None:
            further = [verdict.violation(), *verdict.further[:place], *verdict.further[place + 1 :]]
            return msgspec.structs.replace(
                verdict, text=other.text, outcome=other.outcome, witness=other.witness, slack_ns=other.slack_ns,
                further=further,
            )  # fmt: skip
    text = f"{verdict.text} (known: {known.reason})"
    return msgspec.structs.replace(verdict, verdict=VerdictKind.KNOWN_FAILURE, text=text)
