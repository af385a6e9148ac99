"""Commands of an operator in IBM MQ's command language, read: DEFINE, ALTER, DELETE, DISPLAY of QLOCAL, QALIAS, TOPIC,
ALTER and DISPLAY of QMGR, SET AUTHREC. And, ours, where a queue manager has programs: START and STOP of the delivery
delay processor (DELAYPROC), DISPLAY and DELETE of what is on the staging queue (STAGED, by its place, from 1).

* ``VERB KIND(NAME) ATTRIBUTE(VALUE) …``; words are read in any case, names and values in capitals unless in quotes.
* Values are checked against ``ATTRIBUTES``; a number is given as one. An error says the value and what would be taken.
"""

from __future__ import annotations

import re
from typing import Final

Value = str | int
_LARGEST: Final = 999_999_999
_SWITCH: Final = ("ENABLED", "DISABLED")
_BIND: Final = ("OPEN", "NOTFIXED", "GROUP")
_GUARANTEE: Final = ("ALL", "ALLDUR", "ALLAVAIL")
_ANY: Final[tuple[str, ...]] = ()
_COMMON: Final[dict[str, tuple[Value, tuple[str, ...]]]] = {
    "PUT": ("ENABLED", _SWITCH),
    "GET": ("ENABLED", _SWITCH),
    "DEFPSIST": ("NO", ("NO", "YES")),
    "DEFPRTY": (0, _ANY),
    "DEFBIND": ("OPEN", _BIND),
    "CLUSTER": ("", _ANY),
    "CAPEXPRY": (0, _ANY),
}
#: kind -> attribute -> (default, words that it may be; a number's default is one). CAPEXPRY 0 is NOLIMIT.
ATTRIBUTES: Final[dict[str, dict[str, tuple[Value, tuple[str, ...]]]]] = {
    "QLOCAL": {
        **_COMMON,
        "MAXDEPTH": (5000, _ANY),
        "MAXMSGL": (4_194_304, _ANY),
        "INDXTYPE": ("NONE", ("NONE", "MSGID", "CORRELID", "GROUPID", "MSGTOKEN")),
        "MSGDLVSQ": ("FIFO", ("FIFO", "PRIORITY")),
        "STGCLASS": ("DEFAULT", _ANY),
    },
    "QALIAS": {**_COMMON, "TARGET": ("", _ANY)},
    "TOPIC": {
        "TOPICSTR": ("", _ANY),
        "PMSGDLV": ("ALLDUR", _GUARANTEE),
        "NPMSGDLV": ("ALLAVAIL", _GUARANTEE),
        "CAPEXPRY": (0, _ANY),
        "PUB": ("ENABLED", _SWITCH),
    },
    "QMGR": {"CMDLEVEL": (800, _ANY), "DEADQ": ("", _ANY), "PLATFORM": ("UNIX", ("UNIX", "WINDOWS", "MVS"))},
    "AUTHREC": {
        "PROFILE": ("", _ANY),
        "PRINCIPAL": ("", _ANY),
        "AUTHADD": ("", _ANY),
        "AUTHRMV": ("", _ANY),
    },
    "DELAYPROC": {},
    "STAGED": {},
}
_VERBS: Final[dict[str, tuple[str, ...]]] = {
    "DEFINE": ("QLOCAL", "QALIAS", "TOPIC"),
    "ALTER": ("QLOCAL", "QALIAS", "TOPIC", "QMGR"),
    "DELETE": ("QLOCAL", "QALIAS", "TOPIC", "STAGED"),
    "DISPLAY": ("QLOCAL", "QALIAS", "TOPIC", "QMGR", "DELAYPROC", "STAGED"),
    "SET": ("AUTHREC",),
    "START": ("DELAYPROC",),
    "STOP": ("DELAYPROC",),
}
_NAMED: Final = ("QLOCAL", "QALIAS", "TOPIC")
_SHORT: Final = {"DEF": "DEFINE", "ALT": "ALTER", "DIS": "DISPLAY", "QL": "QLOCAL", "QA": "QALIAS"}
_WORD = re.compile(r"\s*([A-Za-z]+)\s*(?:\(\s*('(?:[^']|'')*'|[^()']*?)\s*\))?")


class MqscError(ValueError):
    """A command that cannot be read or carried out. The text shows the value and the remedy."""


class Command:
    """One command. ``attributes`` holds what was written, checked, in its order."""

    __slots__ = ("attributes", "kind", "name", "verb")

    def __init__(self, verb: str, kind: str, name: str, attributes: dict[str, Value]) -> None:
        self.verb = verb
        self.kind = kind
        self.name = name
        self.attributes = attributes


def parse(text: str) -> Command:
    """Read one command. Raises ``MqscError``."""
    words = _words(text)
    verb = _SHORT.get(words[0][0], words[0][0])
    if verb not in _VERBS:
        raise MqscError(f"command {words[0][0]!r} is unknown; one of {', '.join(_VERBS)}")
    if len(words) < 2:
        raise MqscError(f"{verb} of what? one of {', '.join(_VERBS[verb])}")
    kind, name = _SHORT.get(words[1][0], words[1][0]), words[1][1]
    if kind not in _VERBS[verb]:
        raise MqscError(f"{verb} {words[1][0]} is not offered; one of {', '.join(_VERBS[verb])}")
    if kind in _NAMED and not name:
        raise MqscError(f"{verb} {kind} needs a name: {verb} {kind}(NAME)")
    return Command(verb, kind, name or "", {word: _checked(kind, word, value) for word, value in words[2:]})


def _words(text: str) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _WORD.match(text, place)
        if match is None:
            raise MqscError(f"{text[place:].strip()!r} cannot be read; write VERB KIND(NAME) ATTRIBUTE(VALUE)")
        value = match[2]
        if value is not None:
            value = value[1:-1].replace("''", "'") if value.startswith("'") else value.upper()
        found.append((match[1].upper(), value))
        place = match.end()
    if not found:
        raise MqscError("an empty command; write VERB KIND(NAME) ATTRIBUTE(VALUE)")
    return found


def _checked(kind: str, word: str, value: str | None) -> Value:
    rows = ATTRIBUTES[kind]
    if word not in rows:
        raise MqscError(f"{kind} has no attribute {word}; one of {', '.join(rows) or 'none'}")
    default, choices = rows[word]
    if value is None:
        raise MqscError(f"{word} needs a value: {word}(VALUE)")
    if isinstance(default, int):
        text = "0" if word == "CAPEXPRY" and value.upper() == "NOLIMIT" else value
        if not (text.isascii() and text.isdigit() and int(text) <= _LARGEST):
            raise MqscError(f"{word}({value}) is no number from 0 to {_LARGEST}")
        return int(text)
    if choices and value.upper() not in choices:
        raise MqscError(f"{word}({value}) is unknown; one of {', '.join(choices)}")
    return value.upper() if choices else value
