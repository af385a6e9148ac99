"""A broker profile: the file by which the suite knows a broker (docs/profiles.md).

Rules
* Strict: an unknown key is refused with the nearest known one, a wrong value with what is wanted there. Every error
  names the file, the place in it, the value and the remedy.
* What is absent costs coverage, never a false alarm.
* Secrets are named (``env:NAME``), and read from the environment when they are used.
"""

from __future__ import annotations

import os
import re
import tomllib
import types
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from brokerproof.chaos.brokers.archives import FORMS, is_wanted
from brokerproof.conformance.brokers.apart import Letters
from brokerproof.conformance.brokers.figures import Counters, mistakes
from brokerproof.conformance.brokers.switches import BESIDE
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.conformance.experiment.wire_names import CHOICES, DEFAULTS, SELECTED, WORDS, Saying, WireNames
from brokerproof.conformance.requirements.catalogue import PROFILES, default_catalogue

FORMAT = "brokerproof/broker/1"
#: What begins the name of a Python class in a profile: ``python:module:Class``.
PYTHON = "python:"
#: Capability -> the words of the headers that ask for it, or answer.
_ASKED_BY = {
    "broker-ttl": ["life"],
    "browsers": ["browser", "browser_end"],
    "delay": ["delay"],
    "durables": ["durable"],
    "exclusive": ["exclusive"],
    "groups": ["group"],
    "prefetch": ["prefetch"],
    "priorities": ["priority"],
    "selectors": ["selector"],
}
_SECRET = re.compile(r"env:([A-Za-z_]\w*)")
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")
#: How msgspec calls an entry of a table, and types.
_SOME = "[...]"
_GOT = re.compile(r"got `(\w+)`")
_TYPES = {dict: "object", list: "array", str: "str", bool: "bool", int: "int", float: "float"}


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all tables of the file."""


class Version(_Table, frozen=True):
    """How the broker's version is found: what a command prints, or the ``server`` header of its greeting. The pattern's
    first group is the version.
    """

    command: list[str] | None = None
    pattern: str = r"(\d+(?:\.\d+)+)"
    greeting: str | None = None


class Ready(_Table, frozen=True):
    """When a started broker serves; one of them. Without any: when the protocol of an endpoint answers."""

    log: str | None = None
    protocol: Literal["stomp", "amqp", "amqp091", "mqtt"] | None = None
    http: str | None = None


class Start(_Table, frozen=True):
    """How it is started. ``command`` may be a Python class, a ``Launcher`` (``launching.py``). ``get``: what is got
    first, ``maven:GROUP:ARTIFACT:VERSION:tar.gz:bin``, ``debian:PACKAGE PACKAGE`` or ``pypi:NAME==VERSION``; its folder
    or file is the placeholder of that name. ``restart``: the same command again finds what is persistent, or only after
    a ``"stop"``, not after a kill. ``lanes``: how many programs of the corpus run side by side, each on a
    process of its own.
    """

    command: list[str] | str
    ready: Ready = Ready()
    stop: str = "SIGTERM"
    stop_s: Annotated[float, msgspec.Meta(gt=0)] = 15.0
    restart: bool | Literal["stop"] = False
    clock: Literal["libfaketime", "none"] = "none"
    speed: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    lanes: Annotated[int, msgspec.Meta(ge=1, le=32)] = 3
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    get: dict[str, str] = {}


class StompAt(_Table, frozen=True):
    """Where it speaks STOMP (``stomp://``, ``stomp+ssl://``). ``host`` is the virtual host of CONNECT, ``ca`` a file of
    certificates to trust.
    """

    url: str
    versions: tuple[Literal["1.0", "1.1", "1.2"], ...] = ("1.0", "1.1", "1.2")
    login: str = ""
    passcode: str = ""
    host: str = "localhost"
    ca: str = ""


class At(_Table, frozen=True):
    """Where it speaks a protocol. ``host`` is AMQP's virtual host, or hostname of ``open``."""

    url: str
    versions: list[str] = []
    login: str = ""
    passcode: str = ""
    host: str = ""
    ca: str = ""


class JmsAt(_Table, frozen=True):
    """How a JMS provider is used. ``classpath``: jars, folders of them, or ``maven:GROUP:ARTIFACT:VERSION``.
    The others are those of ``agents/provider.py``; ``expiry_check`` absent: nobody knows, so no message gets a life.
    """

    classpath: list[str]
    factory: str
    uri: str
    api: Literal["javax", "jakarta"] = "jakarta"
    facade: Literal["classic", "context"] = "classic"
    properties: dict[str, str | int | bool] = {}
    login: str = ""
    passcode: str = ""
    individual: int | None = None
    expiry_check: bool | None = None


class AgentAt(_Table, frozen=True):
    """Somebody's own agent (docs/agents.md). ``url`` is what its ``connect`` is told."""

    command: list[str]
    url: str = ""


class Endpoints(_Table, frozen=True):
    """Its endpoints by protocol."""

    stomp: StompAt | None = None
    openwire: At | None = None
    amqp: At | None = None
    amqp091: At | None = None
    mqtt: At | None = None
    jms: JmsAt | None = None
    agent: AgentAt | None = None


class Names(_Table, frozen=True):
    """A table per endpoint. ``separator``: what stands between the parts of a name, for a broker that takes no dots."""

    separator: Literal[".", "_", ":", "/", "~", "-"] = "."
    stomp: WireNames = DEFAULTS["stomp"]
    amqp: WireNames = DEFAULTS["amqp"]
    amqp091: WireNames = DEFAULTS["amqp091"]
    mqtt: WireNames = DEFAULTS["mqtt"]
    jms: WireNames = DEFAULTS["jms"]


class OperatorAt(_Table, frozen=True):
    """Who gives a queue manager commands (``operator.py``): ``command`` reads MQSC, as ``runmqsc`` does; ``queues`` and
    ``after`` are commands for each queue of a program, before and after it.
    """

    command: list[str]
    queues: list[str] = []
    after: list[str] = []


class Operations(_Table, frozen=True):
    """What an operator asks for at the broker's web pages (``administration.py``): ``METHOD URL``, or a URL that is
    sent a POST, with ``{name}``, and ``{to}`` of a move. ``count``: the field of its answer that says how many messages
    it was, or any word where the answer is a number alone.
    """

    purge: str = ""
    move: str = ""
    reset: str = ""
    count: str = ""

    def words(self) -> list[str]:
        """What can be asked."""
        return [word for word in ("purge", "move", "reset") if getattr(self, word)]


#: A window that no program fills; what protocols can say at most.
UNLIMITED: Final = 2**31 - 1


class Promises(_Table, frozen=True):
    """What its documentation says. ``capabilities`` absent: found by probing."""

    profiles: list[str] | None = None
    requirements: list[str] = []
    capabilities: list[str] | None = None
    reject: Literal["redeliver", "dead-letter", "drop"] | None = None
    expired: Literal["dead-letter", "elsewhere"] = "dead-letter"
    redeliveries_max: Annotated[int, msgspec.Meta(ge=0)] | Literal["unlimited"] | None = None
    prefetch: Annotated[int, msgspec.Meta(ge=1)] | Literal["unlimited", "ignored"] | None = None
    heart_beat_grace: Annotated[float, msgspec.Meta(ge=1)] | None = None
    delay_clock: Literal["elapsed", "broker-wall", "producer-wall"] = "elapsed"
    delay_begins: Literal["send", "commit"] = "send"
    generation: dict[str, str] = {}

    def window(self) -> int | None:
        """What a consumer gets that asks for no prefetch; None: that is the broker's own affair."""
        if self.prefetch == "unlimited":
            return UNLIMITED
        return self.prefetch if isinstance(self.prefetch, int) else None


class Tolerances(_Table, frozen=True):
    """Real time: how late it may be when nothing disturbs it."""

    lateness_ms: Annotated[int, msgspec.Meta(ge=0)] = 1000


class KnownFile(_Table, frozen=True):
    """Deviations that are known and must still fail."""

    file: str


class Profile(_Table, frozen=True):
    """The whole file. ``adapter`` is a Python class that does all of it (``base.Adapter``), ``about`` a line for
    ``brokerproof list brokers``.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][\w.+-]*$")]
    endpoints: Endpoints
    format: Literal["brokerproof/broker/1"] = "brokerproof/broker/1"
    about: str = ""
    version: str | Version = ""
    adapter: str = ""
    start: Start | None = None
    names: Names = Names()
    settings: dict[str, list[str]] | str = {}
    counters: Counters | None = None
    operator: OperatorAt | None = None
    operations: Operations = Operations()
    promises: Promises = Promises()
    tolerances: Tolerances = Tolerances()
    known: KnownFile | None = None

    def operated(self) -> list[str]:
        """What its operator can be asked for."""
        return [*self.operations.words(), *(["mqsc"] if self.operator is not None else [])]

    @property
    def letters(self) -> Letters:
        """What becomes of what dies on it; only STOMP has names for dead letters apart."""
        return Letters(self.names.stomp.apart, self.promises.expired == "dead-letter")

    @property
    def restarts(self) -> bool | Literal["stop"]:
        """``start.restart``, of one that is started at all."""
        return self.start is not None and self.start.restart


class Located(msgspec.Struct, eq=False):
    """A profile and where it is from: ``place`` heads its errors, ``here`` is the folder of its files. ``probed``:
    there is no file, only a URL, so what no probe can prove is not promised.
    """

    profile: Profile
    place: str
    here: Path
    probed: bool = False

    def wrong(self, line: str, text: str) -> UsageError:
        """An error of this file, at a place in it."""
        return UsageError(f"{self.place}: {line}: {text}")


def read_profile(path: Path) -> Located:
    """A profile's file. Raises ``UsageError``."""
    try:
        return parse_profile(path.read_text(encoding="utf-8"), str(path), path.absolute().parent)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not UTF-8 ({error.reason})"
        raise UsageError(
            f"{path}: {reason}; give a broker profile, or make one with `brokerproof profile init URL`"
        ) from None


def parse_profile(text: str, place: str, here: Path) -> Located:
    """The same from its text. Raises ``UsageError``."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{place}: {error}; a broker profile is a TOML file (docs/profiles.md)") from None
    _check_keys(raw, Profile, place, "")
    try:
        profile = msgspec.convert(_named(raw), Profile)
    except msgspec.ValidationError as error:
        raise UsageError(f"{place}: {_said(str(error), raw)}") from None
    located = Located(profile, place, here)
    _check(located)
    return located


def _named(raw: dict[str, Any]) -> dict[str, Any]:
    """The file with its names completed by those of each protocol."""
    names = raw.get("names")
    if not isinstance(names, dict):
        return raw
    told = {
        kind: {**msgspec.to_builtins(DEFAULTS[kind]), **table} if isinstance(table, dict) else table
        for kind, table in names.items()
    }
    return {**raw, "names": told}


def _check_keys(table: dict[str, Any], kind: type, place: str, at: str) -> None:
    """Refuse keys that do not exist, with the nearest that does."""
    hints = get_type_hints(kind)
    for key, value in table.items():
        path = f"{at}.{key}" if at else key
        if key not in hints:
            known = ", ".join(hints)
            raise UsageError(f"{place}: {path}: unknown key; {suggestion(key, hints)}known here: {known}")
        inner = _table_of(hints[key])
        if inner is not None and isinstance(value, dict):
            _check_keys(value, inner, place, path)


def _table_of(hint: Any) -> type | None:
    """The table that a field holds, if it holds one."""
    if isinstance(hint, type) and issubclass(hint, _Table | WireNames):
        return hint
    parts = get_args(hint) if isinstance(hint, types.UnionType) or get_origin(hint) is not None else ()
    return next((found for part in parts if (found := _table_of(part)) is not None), None)


def _said(error: str, raw: dict[str, Any]) -> str:
    """A validation error with its place first, and the value."""
    found = _PLACE.search(error)
    place = found[1] if found else ""
    value: Any = raw
    for part in filter(None, re.split(r"[.\[\]]", place)):
        value = value.get(part) if isinstance(value, dict) else value[int(part)] if part.isdigit() else None
    got = _GOT.search(error)
    if place.endswith(_SOME) and isinstance(value, dict) and got is not None:
        key = next((key for key, one in value.items() if _TYPES.get(type(one)) == got[1]), _SOME)
        place, value = f"{place.removesuffix(_SOME)}.{key}", value.get(key)
    words = _words(place)
    if words and isinstance(value, str):
        return f"{place}: {value!r} is none; {suggestion(value, words)}known: {', '.join(words)}"
    shown = f" (it is {value!r})" if place and not isinstance(value, dict) else ""
    return f"{place or 'the file'}: {_PLACE.sub('', error)}{shown}; docs/profiles.md shows every line"


def _words(place: str) -> list[str]:
    """What a line takes that takes certain words."""
    hint: Any = Profile
    for part in filter(None, place.split(".")):
        table = _table_of(hint)
        hint = None if table is None else get_type_hints(table, include_extras=True).get(part)
    parts = (hint,) if get_origin(hint) is Literal else get_args(hint)
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    return [*words, "a number"] if words and any(get_origin(part) is Annotated for part in parts) else words


def _check(located: Located) -> None:
    """What the types cannot say."""
    profile = located.profile
    endpoints = profile.endpoints
    if not any(getattr(endpoints, name) for name in endpoints.__struct_fields__) and not profile.adapter:
        raise located.wrong("endpoints", "there is none; add a line, for example stomp = { url = … }")
    if endpoints.stomp is None and not profile.adapter and profile.promises.capabilities is None:
        text = 'without an endpoint stomp nothing is probed; say what it can do, for example ["persistent"]'
        raise located.wrong("promises.capabilities", text)
    for name in profile.promises.profiles or ():
        if name not in PROFILES:
            raise located.wrong(
                "promises.profiles", f"{name!r} is none; {suggestion(name, PROFILES)}known: {', '.join(PROFILES)}"
            )
    known = {*BESIDE}.union(*(one.words() for one in default_catalogue()))
    for word in profile.promises.capabilities or ():
        if word not in known:
            text = f"nothing needs {word!r}; {suggestion(word, known)}known: {', '.join(sorted(known))}"
            raise located.wrong("promises.capabilities", text)
    _check_names(located)
    _check_named(located)
    _check_operations(located)
    for line, text in mistakes(profile.counters) if profile.counters is not None else ():
        raise located.wrong(line, text)
    start = profile.start
    for name, text in start.get.items() if start is not None else ():
        if not is_wanted(text):
            raise located.wrong(f"start.get.{name}", f"{text!r} is not {FORMS}")
    takes = start is not None and (isinstance(start.command, str) or "{settings}" in start.command or start.files)
    if profile.settings and not takes:
        raise located.wrong("settings", 'nothing takes them; put "{settings}" into start.command, or use start.files')
    if start is not None and start.command in ([], "") and not profile.adapter:
        raise located.wrong("start.command", "it is empty; give the command as a list of words")


def _check_operations(located: Located) -> None:
    for word in located.profile.operations.words():
        text = getattr(located.profile.operations, word)
        for part in ("://", "{name}", *(("{to}",) if word == "move" else ())):
            if part not in text:
                example = "http://127.0.0.1:{port.admin}/queues/{name}/" + ("move?to={to}" if word == "move" else word)
                raise located.wrong(f"operations.{word}", f"{text!r} lacks {part}; for example {example!r}")


def _check_named(located: Located) -> None:
    """What is claimed over STOMP alone has a header to ask for it."""
    endpoints, promises = located.profile.endpoints, located.profile.promises
    if [name for name in endpoints.__struct_fields__ if getattr(endpoints, name)] != ["stomp"]:
        return
    asked = [(word, header) for word in promises.capabilities or () for header in _ASKED_BY.get(word, ())]
    for word, header in asked:
        if located.profile.names.stomp.headers.get(header) == "":
            text = f'{word!r} is claimed, and names.stomp.headers.{header} = "" says that there is no such header'
            raise located.wrong("promises.capabilities", f"{text}; name the header, or leave the word out")


def _check_names(located: Located) -> None:
    for kind, words in WORDS.items():
        names = getattr(located.profile.names, kind)
        for word in ("queue", "topic"):
            template = getattr(names, word)
            if template.count("{name}") != 1 and template != getattr(DEFAULTS[kind], word):
                raise located.wrong(f"names.{kind}.{word}", f"{template!r} must hold {{name}} once")
        letters, line = names.dead_letters, f"names.{kind}.dead_letters"
        if names.apart and kind != "stomp":
            raise located.wrong(line, f"{letters!r}: a queue for each queue's dead letters is known over STOMP only")
        if letters.count("{name}") > 1 or (names.apart and letters == names.queue):
            raise located.wrong(line, f"{letters!r} must hold {{name}} once, or not at all, and be no queue's own name")
        for word, header in names.headers.items():
            line = f"names.{kind}.headers.{word}"
            if word not in words:
                raise located.wrong(line, f"unknown word; {suggestion(word, words)}known: {', '.join(words)}")
            if kind == "stomp" and header:
                _check_header(located, line, word, header)
        for word in names.identifiers:
            if word not in SELECTED:
                text = f"no selector asks for it; {suggestion(word, SELECTED)}known: {', '.join(SELECTED)}"
                raise located.wrong(f"names.{kind}.identifiers.{word}", text)


def _check_header(located: Located, line: str, word: str, header: str) -> None:
    try:
        Saying.of(word, header)
    except ValueError:
        forms = {"delivery_count": "'NAME' or 'NAME - 1'", "redelivered": "'NAME', 'NAME: YES' or 'NAME > 1'"}
        form = forms.get(word, "'NAME', 'NAME: YES' or 'NAME: YES | NO'" if word in CHOICES else "the name of a header")
        raise located.wrong(line, f"{header!r} is no header; it must be {form}") from None


def revealed(value: str, located: Located, line: str) -> str:
    """A value with its secrets (``env:NAME``). Raises ``UsageError`` for one that is not set."""

    def secret(found: re.Match[str]) -> str:
        text = os.environ.get(found[1])
        if text is None:
            raise located.wrong(line, f"the variable {found[1]} is not set; export it before the run")
        return text

    return _SECRET.sub(secret, value)
