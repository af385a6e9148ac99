"""What a reproducer asserts: the violated requirement, said of what its clients see.

``KINDS`` says of each requirement which kinds of expectation state it; each kind is worked out from the reference
broker's run. What is about counters, memory, links or clocks of the broker cannot be stated by clients alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.experiment.exits import UsageError

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import Send
    from brokerproof.conformance.export.script import Script

NS_PER_MS = 1_000_000
#: How late a due message may be on a busy machine.
LATENESS_MS = 1000


class Expectation(msgspec.Struct, frozen=True):
    """Common to all. ``sentence`` is what a failure says."""

    sentence: str


class NotBefore(Expectation, frozen=True):
    """``message`` arrives so long after its send at the earliest, or not at all."""

    message: str
    ms: int


class NotAfter(Expectation, frozen=True):
    """``message`` arrives, and so long after its send at the latest."""

    message: str
    ms: int


class Kept(Expectation, frozen=True):
    """``message`` arrives with the stamp (``expires`` or ``timestamp``) that its producer put on it."""

    message: str
    header: str


class Life(Expectation, frozen=True):
    """``message`` arrives with so much between its timestamp and its expiration."""

    message: str
    ms: int


class FirstUnmarked(Expectation, frozen=True):
    """The first delivery of ``message`` is not marked as a redelivery."""

    message: str


class AgainMarked(Expectation, frozen=True):
    """Whenever an application gets ``message`` again, it is marked as a redelivery."""

    message: str


class Takes(Expectation, frozen=True):
    """The application of ``consumer`` gets these messages; ``exactly``: in this order, and no others."""

    consumer: str
    messages: list[str]
    exactly: bool


class Never(Expectation, frozen=True):
    """None of these messages arrives at ``consumer``."""

    consumer: str
    messages: list[str]


class Times(Expectation, frozen=True):
    """Applications get ``message`` so often at most."""

    message: str
    times: int


class Refused(Expectation, frozen=True):
    """The send of ``message`` is answered by an error."""

    message: str


def _not_before(script: Script) -> list[Expectation]:
    return [
        NotBefore(
            f"{send.message} does not arrive before {send.delay_ms} ms have passed since its send",
            send.message,
            send.delay_ms,
        )
        for send in script.sends().values()
        if send.delay_ms > 0
    ]


def _not_after(script: Script) -> list[Expectation]:
    found: list[Expectation] = []
    first = {event.message: event for event in reversed(script.arrivals())}
    for send in script.sends().values():
        if send.delay_ms > 0 and send.message in first:
            ms = (first[send.message].t1 - send.t0) // NS_PER_MS + LATENESS_MS
            found.append(NotAfter(f"{send.message} arrives within {ms} ms of its send", send.message, ms))
    return found


def _kept(header: str, field: str, *, delayed: bool = False) -> Callable[[Script], list[Expectation]]:
    def kept(script: Script) -> list[Expectation]:
        """For messages of which the reference broker keeps it."""
        sends = {name: send for name, send in script.sends().items() if send.delay_ms > 0 or not delayed}
        names = {
            event.message: None
            for event in script.arrivals()
            if event.message in sends and getattr(event, field) == getattr(sends[event.message], field)
        }
        return [Kept(f"{name} arrives with the {header} that it was sent with", name, header) for name in names]

    return kept


def _life(script: Script) -> list[Expectation]:
    lives = {
        event.message: event.expiration_ms - event.timestamp_ms
        for event in script.arrivals()
        if event.expiration_ms > 0
    }
    return [Life(f"{name} arrives with {ms} ms to live from its timestamp", name, ms) for name, ms in lives.items()]


def _first_unmarked(script: Script) -> list[Expectation]:
    return [FirstUnmarked(f"the first delivery of {name} is not marked redelivered", name) for name in script.sends()]


def _again_marked(script: Script) -> list[Expectation]:
    """Of messages that exist once: a copy for somebody else is no redelivery, and the reference broker marks none."""
    marks: dict[str, list[bool]] = {}
    for event in script.arrivals():
        marks.setdefault(event.message, []).append(bool(event.redelivered))
    names = [name for _, name in script.taken()]
    return [
        AgainMarked(f"{name} comes again marked redelivered", name)
        for name, (_, *again) in marks.items()
        if all(again) and names.count(name) > 1
    ]


def _by_consumer(script: Script) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for consumer, message in script.taken():
        found.setdefault(consumer, []).append(message)
    return found


def _in_order(script: Script) -> list[Expectation]:
    return [
        Takes(f"{consumer} gets {', '.join(names)} in this order", consumer, names, exactly=True)
        for consumer, names in _by_consumer(script).items()
    ]


def _gets(script: Script) -> list[Expectation]:
    return [
        Takes(f"{consumer} gets {', '.join(names)}", consumer, names, exactly=False)
        for consumer, names in _by_consumer(script).items()
    ]


def _never(wanted: Callable[[Send], bool]) -> Callable[[Script], list[Expectation]]:
    def never(script: Script) -> list[Expectation]:
        """On a topic, messages that do not arrive at this consumer; on a queue, at nobody: windows are a race."""
        seen = {(event.consumer, event.message) for event in script.arrivals()}
        somewhere = {message for _, message in seen}
        topics = {dest.name for dest in script.program.destinations if dest.kind == "topic"}
        found: list[Expectation] = []
        for consumer in script.consumers():
            names = [
                name
                for name, send in script.sends().items()
                if wanted(send) and ((consumer, name) not in seen if send.dest in topics else name not in somewhere)
            ]
            if names:
                found.append(Never(f"{', '.join(names)} never arrives at {consumer}", consumer, names))
        return found

    return never


def _times(script: Script) -> list[Expectation]:
    """Of what was acknowledged."""
    names = [name for _, name in script.taken()]
    return [
        Times(f"applications get {name} {names.count(name)} times at most", name, names.count(name))
        for name in script.acknowledged()
    ]


def _refused(script: Script) -> list[Expectation]:
    return [
        Refused(f"the send of {name} is refused", name)
        for name, send in script.sends().items()
        if send.result == "fail"
    ]


KINDS: dict[str, Callable[[Script], list[Expectation]]] = {
    **dict.fromkeys(("DLY-001", "DLY-003"), _not_before),
    **dict.fromkeys(("DLY-002", "DLY-018"), _not_after),
    "DLY-006": _kept("expires", "expiration_ms", delayed=True),
    "DLY-015": _kept("timestamp", "timestamp_ms", delayed=True),
    "TSP-003": _kept("expires", "expiration_ms"),
    "TSP-011": _kept("timestamp", "timestamp_ms"),
    **dict.fromkeys(("TSP-002", "TSP-004", "TSP-012"), _life),
    **dict.fromkeys(("RDL-001", "RDL-015"), _first_unmarked),
    **dict.fromkeys(("RDL-002", "RDL-016", "GEN-042"), _again_marked),
    **dict.fromkeys(("GEN-003", "RDL-005", "DLY-012"), _in_order),
    **dict.fromkeys(("GEN-001", "DLY-004", "DLY-005", "DLY-007", "DLY-021"), _gets),
    **dict.fromkeys(("DLY-019", "DLY-020", "DLY-022"), _never(lambda send: send.delay_ms > 0)),
    **dict.fromkeys(("EXP-001", "EXP-004", "EXP-012"), _never(lambda send: send.expiration_ms > 0)),
    "RDL-003": _times,
    **dict.fromkeys(("DLY-030", "DLY-031"), _refused),
}


def expectations(script: Script, requirement: str) -> list[Expectation]:
    """What a requirement demands of this script's clients. Raises ``UsageError`` where clients cannot see it."""
    kind = KINDS.get(requirement)
    if kind is None:
        raise UsageError(
            f"{requirement} cannot be asserted by what clients see of it; those that can: {', '.join(sorted(KINDS))}"
        )
    found = kind(script)
    if not found:
        raise UsageError(f"{script.name} does not exercise {requirement}: its clients would have nothing to assert")
    return found
