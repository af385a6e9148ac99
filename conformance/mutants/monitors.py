"""Mutants of the monitor and of the node around it: what a bare socket can see of them."""

from __future__ import annotations

from collections import deque
from typing import Any

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.effects import Dispatch
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.inactivity import (
    GENERATIONS,
    Monitor,
    MonitorAction,
    MonitorFactory,
    make_monitor,
)
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.broker import BrokerSession as OpenWireSession
from brokerproof.reference_broker.openwire.commands import Command, KeepAliveInfo
from brokerproof.reference_broker.security.identity import Identity
from brokerproof.reference_broker.session.connection_state import ConnectionState
from brokerproof.reference_broker.stomp.broker import BrokerSession as StompSession
from brokerproof.reference_broker.stomp.frames import Frame


def of_generation(mixin: type) -> MonitorFactory:
    """The monitor of the broker's generation with some of its methods replaced."""

    def factory(config: BrokerConfig, address: str, now_ns: int) -> Monitor:
        base: Any = GENERATIONS[config.generation["monitor"]]
        return make_monitor(type(mixin.__name__, (mixin, base), {}), config, address, now_ns)

    return factory


class _Periods(Monitor):
    """Base of those that agree on something else than was agreed."""

    def start(self, now_ns: int, read_ms: int, write_ms: int, initial_delay_ms: int) -> None:
        read_ms, write_ms, initial_delay_ms = self.spoil(read_ms, write_ms, initial_delay_ms)
        super().start(now_ns, read_ms, write_ms, initial_delay_ms)

    def spoil(self, read_ms: int, write_ms: int, delay_ms: int) -> tuple[int, int, int]:
        """The periods that it goes by."""
        raise NotImplementedError


class Mute(_Periods):
    """No keep-alives."""

    def spoil(self, read_ms: int, write_ms: int, delay_ms: int) -> tuple[int, int, int]:  # noqa: ARG002 - the defect
        return read_ms, 0, delay_ms


class Chatters(_Periods):
    """Keep-alives four times as often as needed."""

    def spoil(self, read_ms: int, write_ms: int, delay_ms: int) -> tuple[int, int, int]:
        return read_ms, (write_ms + 3) // 4, delay_ms


class NeedsKeepAlives(_Periods):
    """Without keep-alives of its own it watches nothing."""

    def spoil(self, read_ms: int, write_ms: int, delay_ms: int) -> tuple[int, int, int]:
        return read_ms if self._use_keep_alive else 0, write_ms, delay_ms


class SecondAtLeast(_Periods):
    """Periods below a second are taken for a second."""

    def spoil(self, read_ms: int, write_ms: int, delay_ms: int) -> tuple[int, int, int]:
        return max(read_ms, 1000) if read_ms else 0, write_ms, delay_ms


class Bits32(_Periods):
    """A period is kept in 32 bits."""

    def spoil(self, read_ms: int, write_ms: int, delay_ms: int) -> tuple[int, int, int]:
        return (read_ms & 0x7FFF_FFFF) or min(read_ms, 1), write_ms, delay_ms & 0x7FFF_FFFF


class PatientInMidFrame(Monitor):
    """A frame that has begun counts as alive until it is complete."""

    _receiving = False

    def bytes_received(self, now_ns: int) -> None:
        self._receiving = True
        super().bytes_received(now_ns)

    def frame_received(self, now_ns: int) -> None:
        self._receiving = False
        super().frame_received(now_ns)

    def tick(self, now_ns: int) -> MonitorAction:
        if self._receiving:
            super().bytes_received(now_ns)
        return super().tick(now_ns)


class WaitsForHello(Monitor):
    """Nobody is in a hurry to say hello."""

    def tick(self, now_ns: int) -> MonitorAction:
        self._connect_due_ns += 100_000_000 * NS_PER_MS if now_ns >= self._connect_due_ns else 0
        return super().tick(now_ns)


class IgnoresBlockedWrites(Monitor):
    """A write may be blocked for ever."""

    def write_blocked(self, now_ns: int) -> None:
        """Nothing."""


class CountsAttempts(Monitor):
    """An attempt to read is taken for a sign of life, as in ActiveMQ up to 5.19.10 and 6.3.1."""

    def read_timed_out(self, now_ns: int) -> None:
        super().bytes_received(now_ns)


class BlamesTheBlocked(Monitor):
    """A producer that flow control has stopped counts as silent."""

    def working(self, now_ns: int) -> None:
        """Nothing."""


# -- the node


class ByWallClock(Node):
    """Silence is measured by the wall clock: a step forward makes it longer, a step back shorter."""

    _ahead_ms: int | None = None

    def tick(self, now: Now) -> None:
        ahead_ms = now.wall_ms - now.mono_ns // NS_PER_MS
        before_ms = self._ahead_ms if self._ahead_ms is not None else ahead_ms
        # What rounding does to a drifting clock is no step.
        if abs(ahead_ms - before_ms) > 10 or self._ahead_ms is None:
            self._ahead_ms = ahead_ms
            for state in self._connections.values():
                state.monitor.bytes_received(state.monitor._last_byte_ns - (ahead_ms - before_ms) * NS_PER_MS)
        super().tick(now)


class TimersFirst(Node):
    """Timers are looked at before what has come."""

    def bytes_received(self, connection: int, now: Now) -> None:
        self.tick(now)
        super().bytes_received(connection, now)


class Unanswering(Node):
    """Keep-alives that want an answer get none."""

    def receive(self, connection: int, frame: object, now: Now) -> None:
        if isinstance(frame, KeepAliveInfo):
            frame.response_required = False
        super().receive(connection, frame, now)


class Tolerant(Node):
    """A bad first frame does not end the connection."""

    def _close(self, state: ConnectionState, now: Now) -> None:
        if state.session.connected or state.session.closing in ("DISCONNECT", "ShutdownInfo") or state.started:
            super()._close(state, now)


class LetsAnybodyIn(Node):
    """Who cannot be authenticated comes in all the same."""

    def admit(self, connection: int, identity: Identity | None, text: str, now: Now) -> None:
        super().admit(connection, identity or Identity("anybody", frozenset()), text, now)


class SaysGoodbye(Node):
    """A silent peer is told why it is given up."""

    def _fail_inactive(self, state: ConnectionState, action: MonitorAction, now: Now) -> None:
        words: deque[object] = deque()
        state.session.outbox, kept = words, state.session.outbox
        state.session.fail(action.reason)
        state.session.outbox = kept
        super()._fail_inactive(state, action, now)
        state.session.outbox.extend(words)


class ReportsTwice(Node):
    """A state that is given up is reported by two."""

    def _fail_inactive(self, state: ConnectionState, action: MonitorAction, now: Now) -> None:
        super()._fail_inactive(state, action, now)
        self._actions.extend([one for one in self._actions if getattr(one, "text", "") == action.failure][:1])


class SwapsHeartBeats(StompSession):
    """The two numbers of the client's header are taken for each other."""

    __slots__ = ()

    def _heart_beat(self, text: str | None) -> tuple[int, int]:
        sends_ms, wants_ms = super()._heart_beat(text)
        return wants_ms, sends_ms

    def connect(self, frame: Frame) -> list[Any]:
        events = super().connect(frame)
        reply = self.outbox[-1]
        assert isinstance(reply, Frame)
        sends, _, wants = reply.headers["heart-beat"].partition(",")
        reply.headers["heart-beat"] = f"{wants},{sends}"
        return events


class HangsUp(Node):
    """After some frames a connection is ended without a word."""

    _frames: dict[int, int]

    def _process(self, state: ConnectionState, frame: object, now: Now) -> None:
        super()._process(state, frame, now)
        seen = self.__dict__.setdefault("_frames", {})
        seen[state.number] = seen.get(state.number, 0) + 1
        if seen[state.number] == 7 and not state.session.closing:
            state.session.closing = "enough"
            self._after(state, now)


class Miscounts(StompSession):
    """The length of a body is said to be one less."""

    __slots__ = ()

    def render(self, dispatch: Dispatch) -> Frame | None:
        frame = super().render(dispatch)
        if frame is not None and frame.body:
            frame.headers["content-length"] = str(len(frame.body) - 1)
        return frame


class Tolerates(StompSession):
    """What is wrong is passed over once a client is connected."""

    __slots__ = ()

    def _error(self, text: str, receipt: str = "", code: str = "", version: str = "") -> None:
        if not self.connected:
            super()._error(text, receipt, code, version)


class Confirms(StompSession):
    """What is refused is confirmed, where a receipt was asked for."""

    __slots__ = ()

    def _error(self, text: str, receipt: str = "", code: str = "", version: str = "") -> None:
        if self.connected and receipt:
            self.outbox.append(Frame("RECEIPT", {"receipt-id": receipt}))
        else:
            super()._error(text, receipt, code, version)


class CutsBodies(StompSession):
    """A body ends at its first NUL."""

    __slots__ = ()

    def render(self, dispatch: Dispatch) -> Frame | None:
        frame = super().render(dispatch)
        if frame is not None:
            frame.headers.pop("content-length", None)
            frame.body = frame.body.partition(b"\0")[0]
        return frame


class RepeatsIds(StompSession):
    """Every message has the same message-id."""

    __slots__ = ()

    def render(self, dispatch: Dispatch) -> Frame | None:
        frame = super().render(dispatch)
        if frame is not None:
            frame.headers["message-id"] = "1"
        return frame


class Stays(StompSession):
    """After an ERROR the connection goes on."""

    __slots__ = ()

    def _error(self, text: str, receipt: str = "", code: str = "", version: str = "") -> None:
        super()._error(text, receipt, code, version)
        if self.connected:
            self.closing = ""


class Strips(StompSession):
    """Blanks around the values of headers are cut off."""

    __slots__ = ()

    def render(self, dispatch: Dispatch) -> Frame | None:
        frame = super().render(dispatch)
        if frame is not None:
            frame.headers = {name: value.strip() for name, value in frame.headers.items()}
        return frame


class ForgetsSequences(StompSession):
    """The number of a message in its group is not said."""

    __slots__ = ()

    def render(self, dispatch: Dispatch) -> Frame | None:
        frame = super().render(dispatch)
        if frame is not None:
            frame.headers.pop("JMSXGroupSeq", None)
        return frame


class Coarse(OpenWireSession):
    """Every exception is of the most general class."""

    __slots__ = ()

    def refuse(self, command: Command, code: str, text: str) -> None:  # noqa: ARG002 - the defect
        super().refuse(command, "", text)


def with_sessions(protocol: str, session: type[StompSession | OpenWireSession]) -> type[Node]:
    """A node whose sessions of a protocol are of another class."""

    class WithSessions(Node):
        def make_session(self, asked: str, connection: int) -> Any:
            return session(connection, self.config) if asked == protocol else super().make_session(asked, connection)

    return WithSessions


class KeepsConnections(Node):
    """A connection that is gone stays registered."""

    def disconnect(self, connection: int, now: Now) -> None:
        state = self._connections.get(connection)
        super().disconnect(connection, now)
        if state is not None:
            self._connections[connection] = state
