"""A bridge's host in the simulation: the reference broker's bridge, between two broker hosts.

It runs beside the near broker and has one link that matters, to the far one. It is observed as two clients, one of each
broker, by what passes on its two connections.

Rules
* What it is seen to do is told as ``worlds/crossings.py`` says.
* A bridge that ends comes back after ``RETRY_NS``, then after twice as long, and so on up to ``RETRY_MAX_NS``, until
  both brokers have let it in; ``rejoin`` does not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from brokerproof.conformance.agents.message import read_body
from brokerproof.conformance.experiment.configuration import LinkSpec
from brokerproof.conformance.experiment.history import Closed, Crash, Event, Leave
from brokerproof.conformance.worlds.crossings import PREFETCH, RETRY_MAX_NS, RETRY_NS, Crossings, as_told
from brokerproof.conformance.worlds.simulated.agenda import Action, Agenda, Party
from brokerproof.conformance.worlds.simulated.framings import Framings
from brokerproof.conformance.worlds.simulated.link import SOME, Ended, Link, Opened
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.openwire.bridge import (
    FAR,
    NEAR,
    Bridge,
    Confirmed,
    GivenUp,
    Listening,
    PassedOn,
    Settled,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.brokers.translation import Names
    from brokerproof.conformance.experiment.configuration import HostSpec
    from brokerproof.conformance.experiment.state import ClientState
    from brokerproof.conformance.mutants import Build
    from brokerproof.conformance.worlds.port import Recorder
    from brokerproof.conformance.worlds.simulated.broker import BrokerHost
    from brokerproof.reference_broker.openwire.client import ClientSession
    from brokerproof.reference_broker.session.notice import Notice

#: Between the near broker and the bridge beside it.
NEAR_LATENCY_US: Final = 10


class Redial(Action):
    """A bridge may try again, or has tried long enough."""

    __slots__ = ("_bridge", "_life")

    def __init__(self, bridge: BridgeHost) -> None:
        self._bridge = bridge
        self._life = bridge.life

    def happen(self) -> None:
        self._bridge.redial(self._life)

    def party(self) -> Party:
        return self._bridge


class Gone(Action):
    """The broker has seen the end of a connection that a bridge gave up."""

    __slots__ = ("_end", "_since_ns")

    def __init__(self, end: BridgeEnd) -> None:
        self._end = end
        self._since_ns = end.link.agenda.now_ns

    def happen(self) -> None:
        self._end.left(self._since_ns)

    def party(self) -> Party:
        return self._end


class BridgeEnd:
    """One of the two clients that a bridge is."""

    def __init__(self, bridge: BridgeHost, side: str, name: str, link: Link, broker: BrokerHost) -> None:
        self.bridge = bridge
        self.side = side
        self.name = name
        self.link = link
        self.broker = broker
        self.connection = 0
        self.connected = False
        link.client_end = self

    def receive(self, connection: int, item: object) -> None:
        """Something came from the broker."""
        if connection != self.connection:
            return
        if isinstance(item, Ended):
            now_ns = self.link.agenda.now_ns
            self.put(Closed, now_ns, who="broker", reason=item.reason, link=self.name)
            if self.connected:
                self.put(Leave, item.at_ns, result="ok", how="drop")
            self.connection = 0
            self.bridge.end(f"{self.side}: {item.reason}")
        elif item is not SOME:
            self.bridge.heard(self, item)

    def hang_up(self) -> None:
        """Its socket vanishes."""
        if self.connection:
            self.link.to_broker(self.connection, Ended("bridge gone", self.link.agenda.now_ns))
            self.link.agenda.plan(self.link.agenda.now_ns + self.link.latency_ns, Gone(self))
            self.connection = 0

    def left(self, since_ns: int) -> None:
        """The broker must have noticed by now, unless the link holds that back."""
        self.put(Leave, since_ns, result="unknown" if self.link.stalled_up else "ok", how="drop")

    def fail(self, how: str, evidence: str) -> None:
        self.bridge.fail(how, evidence)

    def put(self, kind: type[Event], since_ns: int, **fields: object) -> None:
        """Record something that began then and ends now."""
        self.bridge.recorder.put(kind, since_ns, self.link.agenda.now_ns, self.name, **fields)


class BridgeHost:
    """See the module's header."""

    def __init__(
        self,
        agenda: Agenda,
        recorder: Recorder,
        spec: HostSpec,
        state: ClientState,
        *,
        near: BrokerHost,
        far: BrokerHost,
        parts: Build,
        names: Names,
        queues: list[str],
        number: Callable[[], int],
    ) -> None:
        """``state`` is that of the far end; ``queues`` are those to be carried, by the suite's names; ``number`` gives
        the numbers of new connections.
        """
        self.agenda = agenda
        self.recorder = recorder
        self.name = spec.name
        near_link = Link(agenda, near, spec.name, LinkSpec(spec.name, NEAR_LATENCY_US))
        far_link = Link(agenda, far, state.name, state.link)
        self.near = BridgeEnd(self, NEAR, spec.name, near_link, near)
        self.far = BridgeEnd(self, FAR, state.name, far_link, far)
        self.encoded = state.link.encoded
        self._parts = parts
        self._names = names
        self._queues = queues
        self._number = number
        #: How many times it was begun; 0: not yet.
        self.life = 0
        self.bridge: Bridge | None = None
        self._pause_ns = RETRY_NS
        self._log = Crossings(recorder, spec.name, state.name)

    # -- connections

    def _dial(self, connections: tuple[int, int]) -> None:
        """Begin, over two new sockets."""
        self.life += 1
        self._log.begun(self.agenda.now_ns)
        sessions: list[ClientSession] = []
        for end, connection in zip((self.near, self.far), connections, strict=True):
            end.connection = connection
            end.link.clear()
            monitor = self._parts.client_monitor("documented", f"tcp://broker:{connection}", self.agenda.now_ns)
            name = f"{end.name}-{connection}"
            settings: dict[str, Any] = {"max_inactivity_ms": 0, "initial_delay_ms": 0, "connection_id": f"ID:{name}"}
            session = self._parts.jms_client(name, monitor, consumer_expiry_check=False, **settings)
            session.user_name, session.password = end.broker.login or ("", "")
            sessions.append(session)
        ids = {"near_id": f"ID:{self.near.broker.name}", "far_id": f"ID:{self.far.broker.name}"}
        queues = [self._names.physical(queue) for queue in self._queues]
        self.bridge = self._parts.bridge(sessions[0], sessions[1], queues, prefetch=PREFETCH, **ids)
        for end in (self.near, self.far):
            self._encode(end)
            end.link.to_broker(end.connection, Opened("openwire"))
        self._flush()
        self._await()

    def _encode(self, end: BridgeEnd) -> None:
        if self.encoded:
            end.link.framings[end.connection] = Framings("openwire", f"ID:{end.name}-{end.connection}")

    def _await(self) -> None:
        """Look again in a while whether it is open."""
        self.agenda.plan(self.agenda.now_ns + self._pause_ns, Redial(self))
        self._pause_ns = min(2 * self._pause_ns, RETRY_MAX_NS)

    def redial(self, life: int) -> None:
        """Try again, unless it is open, or another attempt was made since."""
        if life == self.life and not self.is_open:
            self.end("not let in")
            self.begin()

    def begin(self) -> None:
        """Open two sockets."""
        self._dial((self._number(), self._number()))

    @property
    def is_open(self) -> bool:
        """Whether messages may cross."""
        return self.bridge is not None and self.bridge.is_open

    def rejoin(self) -> None:
        """Do not wait."""
        if not self.is_open:
            self.end("not let in")
            self._pause_ns = RETRY_NS
            self.begin()

    def cut(self) -> int:
        """Both sockets vanish; how many messages were in doubt."""
        doubtful = len(self.bridge.in_doubt()) if self.bridge is not None else 0
        self.end("cut")
        return doubtful

    def end(self, reason: str) -> None:
        """This life is over: what was not confirmed is in doubt."""
        bridge, self.bridge = self.bridge, None
        if bridge is None:
            return
        bridge.lost(FAR, reason)
        now_ns = self.agenda.now_ns
        self._log.ended(now_ns)
        for notice in bridge.wanted():
            self._log.subscribed(notice.consumer, self._names.logical(notice.queue), "unknown", now_ns)
        for end in (self.near, self.far):
            if not end.connected and end.connection:
                self._log.connected(end.name, "unknown", now_ns)
            end.hang_up()
            end.connected = False
        self.agenda.plan(self.agenda.now_ns + self._pause_ns, Redial(self))

    def fail(self, how: str, evidence: str) -> None:
        """Its process ends over what it was sent."""
        now_ns = self.agenda.now_ns
        self.recorder.put(Crash, now_ns, now_ns, self.name, target=self.name, how=how, evidence=evidence)
        self.end("crashed")

    # -- what the links bring

    def now(self) -> Now:
        """It has the clock of the near broker's machine."""
        return self.near.broker.now()

    def heard(self, end: BridgeEnd, item: object) -> None:
        """A command from one of the brokers."""
        bridge = self.bridge
        if bridge is None:
            return
        before = bridge.is_open
        (bridge.near if end.side == NEAR else bridge.far).bytes_received(self.agenda.now_ns)
        notices = bridge.receive(end.side, item, self.now())
        if bridge.is_open and not before:
            self._pause_ns = RETRY_NS
            self.near.connected = self.far.connected = True
            self._log.opened(self.agenda.now_ns)
        for notice in notices:
            self._heed(notice)
        self._flush()
        if bridge.failure:
            self.end(bridge.failure)

    def _flush(self) -> None:
        bridge, now_ns = self.bridge, self.agenda.now_ns
        if bridge is None:
            return
        for end, session in ((self.near, bridge.near), (self.far, bridge.far)):
            while (frame := session.next_output(now_ns)) is not None:
                end.link.to_broker(end.connection, frame)

    def _heed(self, notice: Notice) -> None:
        now_ns, log, logical = self.agenda.now_ns, self._log, self._names.logical
        if isinstance(notice, Listening):
            log.subscribed(notice.consumer, logical(notice.queue), "ok", now_ns)
        elif isinstance(notice, PassedOn):
            consumer, message = notice.dispatch.consumer_id, read_body(notice.dispatch.body)
            if isinstance(notice, Settled):
                log.settled(consumer, message, now_ns)
            elif isinstance(notice, Confirmed | GivenUp):
                refusal = notice.text if isinstance(notice, GivenUp) else None
                log.answered(consumer, message, logical(notice.dispatch.destination), now_ns, refusal)
            else:
                told, sent = as_told(notice)
                told["dest"] = logical(told["dest"] or "")
                told["original_dest"] = logical(told["original_dest"] or "") or None
                log.passed_on(consumer, message, told, sent, now_ns, now_ns)

    def is_at_rest(self) -> bool:
        """Whether no cut is in force and nothing waits for a confirmation. What an earlier life left in doubt, and the
        near broker has not given again by now, is told.
        """
        if self.bridge is None or not self.bridge.is_open or self.bridge.in_doubt():
            return False
        self.tell_doubts()
        return True

    def tell_doubts(self) -> None:
        """What was never confirmed may be there or not."""
        self._log.tell_doubts(self.agenda.now_ns)
