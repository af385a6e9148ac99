"""MQSC: what an operator's commands make of a queue manager's objects, as IBM MQ's documents say. Nothing of a broker.

``Objects`` carries commands out one by one; ``apply`` says why one must be refused, "" if it is carried out.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from brokerproof.conformance.experiment.history import Event

STAGING: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
#: The first command level that has delivery delay.
DELAY_LEVEL: Final = 800
LARGEST: Final = 999_999_999
Value = str | int
_SWITCH: Final = ("ENABLED", "DISABLED")
_BOTH: Final[dict[str, tuple[Value, ...]]] = {
    "PUT": _SWITCH,
    "GET": _SWITCH,
    "DEFPSIST": ("NO", "YES"),
    "DEFPRTY": (0,),
    "DEFBIND": ("OPEN", "NOTFIXED", "GROUP"),
    "CLUSTER": ("",),
    "CAPEXPRY": (0,),
}
#: Kind -> attribute -> its default and the other words that it may be; a number's default is one, a name's alone.
ATTRIBUTES: Final[dict[str, dict[str, tuple[Value, ...]]]] = {
    "QLOCAL": {
        **_BOTH,
        "MAXDEPTH": (5000,),
        "MAXMSGL": (4 * 1024 * 1024,),
        "INDXTYPE": ("NONE", "MSGID", "CORRELID", "GROUPID", "MSGTOKEN"),
        "MSGDLVSQ": ("FIFO", "PRIORITY"),
        "STGCLASS": ("DEFAULT",),
    },
    "QALIAS": {**_BOTH, "TARGET": ("",)},
    "TOPIC": {
        "TOPICSTR": ("",),
        "PMSGDLV": ("ALLDUR", "ALL", "ALLAVAIL"),
        "NPMSGDLV": ("ALLAVAIL", "ALL", "ALLDUR"),
        "CAPEXPRY": (0,),
        "PUB": _SWITCH,
    },
    "QMGR": {"CMDLEVEL": (800,), "DEADQ": ("",), "PLATFORM": ("UNIX", "WINDOWS", "MVS")},
    "AUTHREC": {"PROFILE": ("",), "PRINCIPAL": ("",), "AUTHADD": ("",), "AUTHRMV": ("",)},
    "DELAYPROC": {},
    "STAGED": {},
}
_SHORT: Final = {"DEF": "DEFINE", "ALT": "ALTER", "DIS": "DISPLAY", "QL": "QLOCAL", "QA": "QALIAS"}
_NAMED: Final = ("QLOCAL", "QALIAS", "TOPIC")
_KINDS: Final = {
    "DEFINE": _NAMED,
    "ALTER": (*_NAMED, "QMGR"),
    "DELETE": (*_NAMED, "STAGED"),
    "DISPLAY": (*_NAMED, "QMGR", "DELAYPROC", "STAGED"),
    "SET": ("AUTHREC",),
    "START": ("DELAYPROC",),
    "STOP": ("DELAYPROC",),
}
_RIGHTS: Final = ("PUT", "GET", "BROWSE", "PUB", "SUB", "ADMIN")
_WORD: Final = r"\s*([A-Za-z]+)\s*(?:\(\s*('(?:[^']|'')*'|[^()']*?)\s*\))?"
_LINE: Final = re.compile(f"(?:{_WORD})+\\s*")
_WORDS: Final = re.compile(_WORD)


class Command:
    """One command; ``attributes`` as written. ``wrong``: why it is none."""

    def __init__(self, text: str) -> None:
        found = _WORDS.finditer(text) if _LINE.fullmatch(text) else ()
        words = [(match[1].upper(), _value(match[2])) for match in found]
        verb, kind = (_SHORT.get(word, word) for word, _ in (*words, ("", None), ("", None))[:2])
        self.verb, self.kind = verb, kind
        self.name = (words[1][1] or "") if len(words) > 1 else ""
        self.attributes: dict[str, Value] = {}
        self.wrong = "" if kind in _KINDS.get(verb, ()) else "there is no such command"
        if not self.wrong and kind in _NAMED and not self.name:
            self.wrong = "no object is named"
        for word, value in words[2:] if not self.wrong else []:
            checked = _checked(kind, word, value)
            if checked is None:
                self.wrong = f"{word} cannot be that"
                return
            self.attributes[word] = checked

    @property
    def place(self) -> int:
        """The place on the staging queue that it names; 0: it names none."""
        return int(self.name) if self.name.isascii() and self.name.isdigit() else 0


def _value(text: str | None) -> str | None:
    if text is None:
        return None
    return text[1:-1].replace("''", "'") if text.startswith("'") else text.upper()


def _checked(kind: str, word: str, value: str | None) -> Value | None:
    """What an attribute is set to; None: it cannot be."""
    known = ATTRIBUTES[kind].get(word)
    if known is None or value is None:
        return None
    if isinstance(known[0], int):
        value = "0" if word == "CAPEXPRY" and value.upper() == "NOLIMIT" else value
        return int(value) if value.isascii() and value.isdigit() and int(value) <= LARGEST else None
    if len(known) == 1:
        return value
    return value.upper() if value.upper() in known else None


def defaults(kind: str) -> dict[str, Value]:
    """The attributes of an object that nobody altered."""
    return {name: words[0] for name, words in ATTRIBUTES[kind].items()}


class Objects:
    """A queue manager's objects after some commands. ``running``: its delivery delay processor."""

    def __init__(self) -> None:
        self.qmgr = defaults("QMGR")
        self.objects: dict[tuple[str, str], dict[str, Value]] = {("QLOCAL", STAGING): defaults("QLOCAL")}
        self.rights: dict[str, dict[str, list[str]]] = {}
        self.running = True

    def copy(self) -> Objects:
        """The same, to be changed apart."""
        other = Objects()
        other.qmgr, other.objects, other.running = self.qmgr, dict(self.objects), self.running
        other.rights = {who: dict(mine) for who, mine in self.rights.items()}
        return other

    # -- asked

    def queue(self, name: str) -> dict[str, Value]:
        """A local queue, defined or not."""
        return self.objects.get(("QLOCAL", name)) or defaults("QLOCAL")

    def path(self, name: str) -> list[tuple[str, dict[str, Value]]]:
        """What the name of a queue is resolved to: an alias, if it is one, and the queue."""
        alias = self.objects.get(("QALIAS", name))
        if alias is None:
            return [(name, self.queue(name))]
        return [(name, alias), (str(alias["TARGET"]), self.queue(str(alias["TARGET"])))]

    def topic(self, name: str) -> dict[str, Value]:
        """A topic, by its string or its object."""
        for (kind, known), row in self.objects.items():
            if kind == "TOPIC" and name in (row["TOPICSTR"], known):
                return row
        return defaults("TOPIC")

    def staging(self) -> dict[str, Value] | None:
        """The staging queue, where it is."""
        return self.objects.get(("QLOCAL", STAGING))

    def may(self, right: str, name: str, user: str = "") -> bool:
        """Whether a user, or one of whom no record speaks, has a right on an object."""
        mine = self.rights.get(user) or self.rights.get("nobody")
        if not mine:
            return name != STAGING
        everywhere = mine.get("**", [])
        granted = mine.get(name, []) + (everywhere if name != STAGING else [])
        return right in granted or "ADMIN" in granted or "ADMIN" in everywhere

    # -- told

    def apply(self, command: Command) -> str:
        """Carry one out, or why not; then nothing has changed."""
        if command.wrong or command.verb == "DISPLAY":
            return command.wrong or self._unknown(command)
        before, verb = self.staging(), command.verb
        if command.kind == "STAGED":
            return "" if before is not None and before["GET"] == "ENABLED" else "gets are disabled"
        level = self.qmgr
        if command.kind == "DELAYPROC":
            self.running = verb == "START" and self.opens()
            return ""
        wrong = self._set(command)
        if not wrong and (self.staging() is not before or self.qmgr is not level):
            self.running = self._altered(before, level)
        return wrong

    def opens(self) -> bool:
        """Whether the processor can open the staging queue."""
        queue = self.staging()
        open_ = queue is not None and queue["GET"] == "ENABLED" and int(self.qmgr["CMDLEVEL"]) >= DELAY_LEVEL
        return open_ and (self.qmgr["PLATFORM"] != "MVS" or queue is None or queue["PUT"] == "ENABLED")

    def _altered(self, before: dict[str, Value] | None, qmgr: dict[str, Value]) -> bool:
        after = self.staging()
        early = int(qmgr["CMDLEVEL"]) < DELAY_LEVEL
        if not self.opens() or self.running or self.qmgr["PLATFORM"] != "MVS" or early:
            return self.opens()
        if before is None or after is None:
            return True
        return any(before[switch] == "DISABLED" and after[switch] == "ENABLED" for switch in ("GET", "PUT"))

    def _unknown(self, command: Command) -> str:
        there = command.kind not in _NAMED or (command.kind, command.name) in self.objects
        return "" if there else "there is no such object"

    def _set(self, command: Command) -> str:
        kind, key = command.kind, (command.kind, command.name)
        if kind == "AUTHREC":
            return self._authorise(command.attributes)
        if kind == "QMGR":
            self._manager(command.attributes)
            return ""
        there = self.objects.get(key)
        if command.verb == "DEFINE":
            return "it exists" if there is not None else self._put(key, {**defaults(kind), **command.attributes})
        if there is None and (kind != "QLOCAL" or (command.name == STAGING and command.verb == "ALTER")):
            return "there is no such object"
        if command.verb == "ALTER":
            return self._put(key, {**(there or defaults(kind)), **command.attributes})
        self.objects.pop(key, None)
        return ""

    def _put(self, key: tuple[str, str], row: dict[str, Value]) -> str:
        staging = key[1] == STAGING and self.qmgr["PLATFORM"] == "MVS"
        if staging and (row.get("INDXTYPE"), row.get("MSGDLVSQ")) != ("NONE", "FIFO"):
            return "the staging queue must be INDXTYPE(NONE) and MSGDLVSQ(FIFO)"
        if key[0] == "QALIAS" and (not row["TARGET"] or ("QALIAS", str(row["TARGET"])) in self.objects):
            return "its target is no local queue"
        self.objects[key] = row
        return ""

    def _manager(self, attributes: dict[str, Value]) -> None:
        before = self.qmgr["PLATFORM"]
        self.qmgr = {**self.qmgr, **attributes}
        if self.qmgr["PLATFORM"] == before:
            return
        if self.qmgr["PLATFORM"] == "MVS":
            self.objects.pop(("QLOCAL", STAGING), None)
        else:
            self.objects.setdefault(("QLOCAL", STAGING), defaults("QLOCAL"))

    def _authorise(self, attributes: dict[str, Value]) -> str:
        who, name = str(attributes.get("PRINCIPAL", "")), str(attributes.get("PROFILE", ""))
        given, taken = (
            [right for right in str(attributes.get(word, "")).upper().replace(" ", "").split(",") if right]
            for word in ("AUTHADD", "AUTHRMV")
        )
        if not who or not name:
            return "nobody, or nothing, is named"
        if any(right != "NONE" and right not in _RIGHTS for right in (*given, *taken)):
            return "there is no such authority"
        mine = self.rights.setdefault(who, {})
        kept = [right for right in mine.get(name, []) if right not in taken]
        mine[name] = kept + [right for right in given if right in _RIGHTS and right not in kept]
        return ""


class State(NamedTuple):
    """The objects from an event on; None: nobody knows them. ``event`` None: since the start."""

    objects: Objects | None
    event: Event | None = None

    def before(self, event: Event) -> bool:
        """Whether it was so when something else began, for certain."""
        return self.event is None or (self.event.seq < event.seq and self.event.t1 <= event.t0)

    def after(self, event: Event) -> bool:
        """Whether it was not so yet when something else ended, for certain."""
        if self.event is None:
            return False
        return self.event is event or (self.event.seq > event.seq and self.event.t0 >= event.t1)
