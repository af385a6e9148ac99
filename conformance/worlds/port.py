"""What the executor needs of a world: a port that carries operations out, and where events are written down.

A port executes and observes; it decides nothing about programs. What it is told or sees unasked (arrivals, closed
connections) it records at once; what it was asked for it returns as an ``Outcome``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from brokerproof.conformance.experiment.history import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.agents.library import Stamps
    from brokerproof.conformance.experiment.configuration import DeclaredSpec
    from brokerproof.conformance.experiment.history import Result
    from brokerproof.conformance.experiment.operations import ClientOperation, Operation
    from brokerproof.conformance.experiment.peers import Heard, Said
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.state import ClientState, WorldState
    from brokerproof.conformance.experiment.traits import Traits

E = TypeVar("E", bound=Event)
T = TypeVar("T")
#: Work that waits: it yields until when (true nanoseconds since the start of the run), and is told whether that is
#: still to come.
Waiting = Generator[int, bool, T]


class NotOfferedError(Exception):
    """This world (or the broker in it) cannot do this; the step is recorded as skipped and has changed nothing."""


class Outcome(msgspec.Struct, kw_only=True, gc=False):
    """What became of an operation, between ``t0`` and ``t1`` (true nanoseconds since the start of the run)."""

    t0: int
    t1: int
    result: Result = "ok"
    refusal: str | None = None
    #: The connection had ended before it was sent, and nobody knew: the broker was not asked.
    unsent: bool = False
    #: Of ``connect``: what the library does by itself, and what heart-beats the broker says that it sends and wants. Of
    #: ``send``: what the client put on the message, and when a delayed one becomes due; and the calls of its producer,
    #: if an order of them was asked for.
    traits: Traits | None = None
    heart_beat_ms: tuple[int, int] | None = None
    stamps: Stamps = {}
    due_ns: int = 0
    called: list[tuple[str, int, str]] = []
    #: Of ``take``: the message; and, of a consumer without a prefetch, since when its application waited, and whether
    #: the broker owes it no answer any more, if that is known.
    message: str | None = None
    since_ns: int = 0
    answered: bool | None = None
    #: Of a fault: what was seen of it through another channel; and, of ``resume``, of the stall that it ends.
    evidence: dict[str, int] | None = None
    stall: dict[str, int] | None = None
    #: Of ``operate``: how many messages it concerned, and what was shown. Of ``read counters``: those that exist; None:
    #: nobody can ask.
    count: int | None = None
    shown: list[str] = []
    counters: dict[str, int] | None = None
    #: Of ``read counters`` at rest: it was not at rest after all.
    moved: bool = False
    #: Of ``probe``: what the first raw peer said and heard.
    seen: tuple[Said, Heard] | None = None


class Port(Protocol):
    """One world, for one run at a time."""

    #: ``simulated`` or ``live``.
    kind: str

    def open(self, program: Program, state: WorldState, recorder: Recorder) -> None:
        """Start broker, hosts and links as the program says."""

    def shut(self, *, finished: bool) -> None:
        """Stop everything at once; safe to call twice. ``finished``: the run came to its end."""

    def in_order(self, events: list[Event]) -> list[Event]:
        """A finished run's events as the history has them."""

    def label(self) -> str:
        """The broker's name in the header."""

    def capabilities(self) -> list[str]:
        """What the broker offers, in the words of ``Requirement.needs``."""

    def declared(self) -> DeclaredSpec:
        """What the header says of the broker."""

    def rates(self) -> dict[str, int]:
        """Host -> how many times as fast as the machine it lives, of all that do."""

    def true_ns(self) -> int:
        """True nanoseconds since the start of the run."""

    def spent(self) -> bool:
        """Whether the run has taken its time: no further step is begun."""

    def check(self, operation: Operation) -> None:
        """Raises ``NotOfferedError`` for what this world cannot do."""

    def is_connected(self, client: ClientState) -> bool:
        """Whether the client has a connection now."""

    def connect(self, client: ClientState) -> Waiting[Outcome]:
        """The client connects."""

    def ask(self, operation: ClientOperation) -> Waiting[Outcome]:
        """A client does something."""

    def turn(self, until_ns: int) -> bool:
        """Let the next thing happen, if one does before ``until_ns``; False: it is ``until_ns``."""

    def wait(self, until_ns: int) -> bool:
        """The same for who waits alone: what no client hears of need not end it."""

    def moving(self) -> bool:
        """Whether something is on its way now that a schedule may let arrive before the next request is made."""

    def enact(self, operation: Operation) -> Outcome:
        """The environment does something. Raises ``NotOfferedError``, and has changed nothing then."""

    def pump(self) -> None:
        """Let happen what the last operation has made possible."""

    def heal(self) -> None:
        """Lift the faults that no operation lifts."""

    def has_nothing(self, client: ClientState, consumer: str) -> bool:
        """Whether it is known that a consumer would be given nothing now, and that asking would change nothing."""

    def rest(self, deadline_ms: int) -> bool:
        """Wait until nothing moves; False: something still did at the deadline."""

    def sample(self, host: str) -> None:
        """Read a host's wall clock and record it, if it can be read."""

    def receive_guest(self, client: ClientState) -> None:
        """A client of the world itself: on true time, over a straight link."""

    def wait_for_more(self, due_ns: int, missing: Callable[[], bool]) -> bool:
        """While the run drains: let some time pass in which more may come; False: nothing more is waited for.
        ``missing``: whether any message of the run is unaccounted for.
        """


class Recorder:
    """Collects events in order and numbers them."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(self, kind: type[E], t0: int, t1: int, host: str, **fields: object) -> E:
        """Record an event under the next number."""
        event = kind(len(self.events) + 1, t0, t1, host, **fields)
        self.events.append(event)
        return event
