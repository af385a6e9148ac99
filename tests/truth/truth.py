"""The truth of a simulated run: the instants at which the core was told and gave orders, for tests alone.

``played`` runs a program with a witness around the core and returns history and truth; ``compared`` yields, for every
span of the facts whose true instant is known, (kind, span, truth, which row).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from brokerproof.conformance.agents.message import read_body
from brokerproof.conformance.experiment.history import Commit, History
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.presence import gone_ns
from brokerproof.conformance.facts.rows import Session
from brokerproof.conformance.facts.spans import NEVER, Span
from brokerproof.conformance.generate.networks import without_network
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from brokerproof.reference_broker.core import events as core
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.effects import Dispatch, Effect, Refused
from brokerproof.reference_broker.core.instant import Now

Row = tuple[str, Span, int, str]
#: Kinds of acknowledgement by which an application takes a message, or gives it up.
_ENDS = (core.STANDARD, core.INDIVIDUAL, core.POISON)


class Truth:
    """What happened in the core, in true nanoseconds."""

    def __init__(self) -> None:
        self.start_ns: int | None = None
        #: Message -> when the core was told of it; transaction -> when it was committed.
        self.sent: dict[str, list[int]] = {}
        self.committed: dict[str, list[int]] = {}
        #: Message -> (connection, when) of each dispatch.
        self.dispatched: dict[str, list[tuple[int, int]]] = {}
        #: Connection -> its consumers in order: [when it came, when it went].
        self.consumers: dict[int, list[list[int]]] = {}
        self._open: dict[tuple[int, str], list[int]] = {}
        #: Message -> (connection, when) the core was told that a consumer took it, alone or as the last of a range.
        self.settled: dict[str, list[tuple[int, int]]] = {}
        self._names: dict[str, str] = {}

    def tell(self, event: core.Event, now_ns: int, effects: list[Effect]) -> None:
        """One event and what it caused."""
        # What an acknowledgement frees, or denies, others have asked for.
        refused = any(_refuses(effect, event) for effect in effects)
        if isinstance(event, core.Send):
            name = _suite_id(event.message.body)
            self._names[event.message.message_id] = name
            self.sent.setdefault(name, []).append(now_ns)
        elif isinstance(event, core.Commit):
            self.committed.setdefault(event.transaction, []).append(now_ns)
        elif isinstance(event, core.Subscribe) and not refused:
            stay = self._open[event.connection, event.consumer] = [now_ns, NEVER]
            self.consumers.setdefault(event.connection, []).append(stay)
        elif isinstance(event, core.Unsubscribe):
            self._leave(event.connection, event.consumer, now_ns)
        elif isinstance(event, core.Disconnect):
            for connection, consumer in list(self._open):
                if connection == event.connection:
                    self._leave(connection, consumer, now_ns)
        elif isinstance(event, core.Ack) and not refused and not event.transaction and event.kind in _ENDS:
            place = self.settled.setdefault(self._names.get(event.last, ""), [])
            place.append((event.connection, now_ns))
        for effect in effects:
            if isinstance(effect, Dispatch):
                # A dead letter has a name of its own.
                name = self._names[effect.message.message_id] = _suite_id(effect.message.body)
                self.dispatched.setdefault(name, []).append((effect.connection, now_ns))

    def _leave(self, connection: int, consumer: str, now_ns: int) -> None:
        stay = self._open.pop((connection, consumer), None)
        if stay is not None:
            stay[1] = now_ns


def _refuses(effect: Effect, event: core.Event) -> bool:
    """Whether it refuses this request, of those that have one."""
    if not isinstance(effect, Refused):
        return False
    asked = getattr(event, "connection", None), getattr(event, "request", None)
    return asked == (effect.connection, effect.request)


def _suite_id(body: bytes) -> str:
    """The suite's id, which a body begins with."""
    return read_body(bytes(body))


@contextmanager
def _witness(truth: Truth) -> Iterator[None]:
    handle = Broker.handle

    def told(self: Broker, event: core.Event, now: Now) -> list[Effect]:
        effects = handle(self, event, now)
        truth.tell(event, now.mono_ns, effects)
        return effects

    with mock.patch.object(Broker, "handle", told):
        yield


def played(program: Program, seed: int | None = None) -> tuple[History, Truth]:
    """A program's run in the simulated world, and what really happened in it: on one broker, whose events these are."""
    truth = Truth()
    with _witness(truth):
        history = SimulatedWorld(seed=seed).run(without_network(program))
    return history, truth


def compared(facts: Facts, truth: Truth) -> Iterator[Row]:
    """Every span whose true instant is known."""
    for send in facts.sends.values():
        times = truth.sent.get(send.message, [])
        if send.refused or len(times) != 1:
            continue
        end = send.transaction.end if send.transaction is not None else None
        if send.transaction is None:
            yield "accepted", send.accepted, times[0], send.message
        elif isinstance(end, Commit) and end.result == "ok":
            committed = [t for at in truth.committed.values() for t in at if end.t0 <= t <= end.t1]
            if len(committed) == 1:
                yield "committed", send.accepted, committed[0], send.message
    for delivery in facts.deliveries:
        event = delivery.event
        own = _connections(truth, delivery.session)
        given = [at for to, at in truth.dispatched.get(event.message, ()) if at <= event.t1 and to in own]
        if given and delivery.copy.subscription is None:
            yield "assigned", delivery.assigned, given[-1], f"{event.message} at {event.consumer}"
        settled = delivery.settled
        times = [at for by, at in truth.settled.get(event.message, ()) if by in own]
        ending = delivery.settlement
        alone = ending is not None and ending.messages[-1:] == [event.message] if hasattr(ending, "messages") else False
        if settled is not None and settled[1] < NEVER and alone and len(times) == 1 and len(delivery.settlements) == 1:
            yield "settled", settled, times[0], f"{event.message} at {event.consumer}"
    yield from _sessions(facts, truth)


def _connections(truth: Truth, session: Session) -> list[int]:
    """The connections on which this session's consumer may have come."""
    low, high = session.opened
    return [one for one, stays in truth.consumers.items() if any(low <= stay[0] <= high for stay in stays)]


def _sessions(facts: Facts, truth: Truth) -> Iterator[Row]:
    """Sessions of hosts with one connection, whose consumers are told apart by their order."""
    stays = [one for connection in sorted(truth.consumers) for one in truth.consumers[connection]]
    begun: dict[str, list[Session]] = {}
    for session in facts.sessions.values():
        begun.setdefault(session.client.name, []).append(session)
    for sessions in begun.values():
        for session in sessions:
            fitting = [one for one in stays if session.opened[0] <= one[0] <= session.opened[1]]
            if len(fitting) != 1 or not session.known:
                continue
            at = f"{session.name} of {session.dest.name}"
            yield "opened", session.opened, fitting[0][0], at
            if session.end and session.end != "broker" and fitting[0][1] < NEVER:
                yield "closed", (session.lost_ns, gone_ns(facts, session)), fitting[0][1], at
