"""The objects of a queue manager: queues, aliases, topics, its own attributes, authorities, by an operator's commands.

* A queue or topic that nobody defined has the defaults of its kind: destinations come into being at their first use.
* The staging queue is there by default, except on z/OS, where it must be defined, with INDXTYPE(NONE) and
  MSGDLVSQ(FIFO); other values are refused.
* Who has authority records, or else ``nobody`` (who stands for everyone), may do what they say. Without any, everything
  but what concerns the staging queue, which is for administrators only. The principal is the user
  as whom a client logs in, or its client id if it says none.

Exception: definitions are not journalled. After a restart the commands of the configuration are carried out again.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.core.message import QUEUE, TOPIC
from brokerproof.reference_broker.core.mq.mqsc import ATTRIBUTES, Command, MqscError, Value

STAGING: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
DURABLE_MODEL: Final = "SYSTEM.DURABLE.MODEL.QUEUE"
NDURABLE_MODEL: Final = "SYSTEM.NDURABLE.MODEL.QUEUE"
#: The first level that has delivery delay.
DELAY_LEVEL: Final = 800
_REQUIRED: Final = {"INDXTYPE": "NONE", "MSGDLVSQ": "FIFO"}
RIGHTS: Final = ("PUT", "GET", "BROWSE", "PUB", "SUB", "ADMIN")


def defaults(kind: str) -> dict[str, Value]:
    """The attributes of an object of that kind that nobody has changed."""
    return {name: row[0] for name, row in ATTRIBUTES[kind].items()}


class Definitions:
    """All objects, by (kind, name)."""

    __slots__ = ("_defaults", "_rights", "objects", "qmgr")

    def __init__(self) -> None:
        self.qmgr = defaults("QMGR")
        self.objects: dict[tuple[str, str], dict[str, Value]] = {("QLOCAL", STAGING): defaults("QLOCAL")}
        self._defaults = {kind: defaults(kind) for kind in ("QLOCAL", "TOPIC")}
        #: principal -> object -> rights.
        self._rights: dict[str, dict[str, list[str]]] = {}

    # -- what the broker asks

    def staging(self) -> dict[str, Value] | None:
        """The staging queue's attributes; None: it is not there."""
        return self.objects.get(("QLOCAL", STAGING))

    def queue(self, name: str) -> dict[str, Value]:
        """A local queue's attributes; ``name`` without its prefix."""
        return self.objects.get(("QLOCAL", name), self._defaults["QLOCAL"])

    def alias(self, name: str) -> dict[str, Value] | None:
        """An alias's attributes; None: there is no such alias."""
        return self.objects.get(("QALIAS", name))

    def topic(self, name: str) -> dict[str, Value]:
        """A topic's attributes, by its topic string or its object name."""
        for (kind, known), attributes in self.objects.items():
            if kind == "TOPIC" and name in (attributes["TOPICSTR"], known):
                return attributes
        return self._defaults["TOPIC"]

    def base(self, destination: str) -> str:
        """What a name stands for now: a queue behind an alias, or the destination itself."""
        if not destination.startswith(QUEUE):
            return destination
        alias = self.alias(destination[len(QUEUE) :])
        return destination if alias is None else f"{QUEUE}{alias['TARGET']}"

    def path(self, destination: str) -> list[tuple[str, dict[str, Value]]]:
        """The objects that a name is resolved through: (name, attributes), the last one is what gets the message."""
        if destination.startswith(TOPIC):
            name = destination[len(TOPIC) :]
            return [(name, self.topic(name))]
        name = destination[len(QUEUE) :]
        alias = self.alias(name)
        if alias is None:
            return [(name, self.queue(name))]
        target = str(alias["TARGET"])
        return [(name, alias), (target, self.queue(target))]

    def number(self, attribute: str) -> int:
        """An attribute of the queue manager that is a number."""
        return int(self.qmgr[attribute])

    def on_zos(self) -> bool:
        """Whether the queue manager is one of z/OS."""
        return self.qmgr["PLATFORM"] == "MVS"

    def may(self, principal: str, right: str, name: str) -> bool:
        """Whether a principal has a right on an object."""
        mine = self._rights.get(principal) or self._rights.get("nobody")
        if mine is None:
            return name != STAGING
        granted = mine.get(name, []) + (mine.get("**", []) if name != STAGING else [])
        return right in granted or "ADMIN" in granted or "ADMIN" in mine.get("**", [])

    # -- what an operator says

    def apply(self, command: Command) -> None:
        """Carry out DEFINE, ALTER, DELETE or SET. Raises ``MqscError``; then nothing has changed."""
        verb, kind, key = command.verb, command.kind, (command.kind, command.name)
        if kind == "AUTHREC":
            self._authorise(command.attributes)
        elif kind == "QMGR":
            self._alter_manager(command.attributes)
        elif verb == "DEFINE":
            if key in self.objects:
                raise MqscError(f"{kind}({command.name}) exists already; ALTER it or choose another name")
            self._put(key, {**defaults(kind), **command.attributes})
        elif key not in self.objects and kind != "QLOCAL":
            raise MqscError(f"{kind}({command.name}) does not exist; DEFINE it first")
        elif verb == "ALTER":
            if command.name == STAGING and key not in self.objects:
                raise MqscError(f"QLOCAL({STAGING}) does not exist; DEFINE it first")
            self._put(key, {**(self.objects.get(key) or defaults(kind)), **command.attributes})
        else:
            self.objects.pop(key, None)

    def shown(self, command: Command) -> list[str]:
        """DISPLAY: one line for each object, with the attributes asked for or all. Raises ``MqscError``."""
        if command.kind == "QMGR":
            attributes: dict[str, Value] | None = self.qmgr
        else:
            attributes = self.objects.get((command.kind, command.name))
        if attributes is None:
            raise MqscError(f"{command.kind}({command.name}) does not exist; DEFINE it first")
        named = f"({command.name})" if command.name else ""
        return [f"{command.kind}{named} " + " ".join(f"{name}({value})" for name, value in attributes.items())]

    def _put(self, key: tuple[str, str], attributes: dict[str, Value]) -> None:
        if key[1] == STAGING and self.on_zos():
            for name, wanted in _REQUIRED.items():
                if attributes.get(name) != wanted:  # an alias has none of them
                    raise MqscError(f"{STAGING} has {name}({attributes.get(name)}); it must be {name}({wanted})")
        if key[0] == "QALIAS":
            target = str(attributes["TARGET"])
            if not target or ("QALIAS", target) in self.objects:
                raise MqscError(f"TARGET({target}) of QALIAS({key[1]}) is no local queue; name one")
        self.objects[key] = attributes

    def _alter_manager(self, attributes: dict[str, Value]) -> None:
        platform = attributes.get("PLATFORM", self.qmgr["PLATFORM"])
        if platform != self.qmgr["PLATFORM"]:
            if platform == "MVS":
                self.objects.pop(("QLOCAL", STAGING), None)
            else:
                self.objects.setdefault(("QLOCAL", STAGING), defaults("QLOCAL"))
        self.qmgr = {**self.qmgr, **attributes}

    def _authorise(self, attributes: dict[str, Value]) -> None:
        who, name = str(attributes.get("PRINCIPAL", "")), str(attributes.get("PROFILE", ""))
        if not who or not name:
            raise MqscError("SET AUTHREC needs PROFILE(OBJECT, or **) and PRINCIPAL(CLIENT ID)")
        asked = {word: str(attributes.get(word, "")).upper().replace(" ", "") for word in ("AUTHADD", "AUTHRMV")}
        for rights in asked.values():
            for right in rights.split(",") if rights else []:
                if right != "NONE" and right not in RIGHTS:
                    raise MqscError(f"authority {right!r} is unknown; one of NONE, {', '.join(RIGHTS)}")
        mine = self._rights.setdefault(who, {})
        kept = [right for right in mine.get(name, []) if right not in asked["AUTHRMV"].split(",")]
        mine[name] = kept + asked["AUTHADD"].split(",")
