"""Decides when a connection is dead and when a keep-alive is due.

Both ends use it; it has no clock, no socket and no thread.

* Only *elapsed* nanoseconds come in. No step of a wall clock can close a link or keep a dead one open (DESIGN section
  5). ActiveMQ uses the wall clock here.
* ``next_due_ns`` changes only in ``start``, ``tick`` and ``stop``: bytes and frames merely leave a mark that the next
  ``tick`` looks at. So traffic costs an assignment and no timer is moved by it.
* One ``tick`` performs one check, the read check first when both are due. Call it again while ``next_due_ns`` is not
  after now.
* A monitor fails once and is silent ever after.

Two generations (DESIGN section 4)
* ``documented``: what the seed page promises. A silent link is closed R after its last byte; the first R begins only
  after the initial delay D. Any byte counts. A keep-alive leaves W after the last frame written.
* ``classic``: what ActiveMQ's code does. A check every R; a first quiet interval only clears a flag, a second one
  closes: 2R to 3R after the last byte. A frame that is never completed does not set the flag again, so in mid-frame the
  delay is R to 2R. A keep-alive leaves at each check (every W) before which no frame was written.
* The lines in the log are those of the seed page, and those of ActiveMQ 5.17: other spaces, and a WARN where the page
  has a DEBUG line with the exception.

The socket's own timeouts (both generations, off unless configured)
* ``soWriteTimeout``: a write that the peer has not taken for that long closes the link, whatever else arrives: the
  monitor alone never ends a peer that sends but does not read. The edge says when writing stops and goes on.
* ``soTimeout``: reading gives up and begins anew. That is no sign of life. (ActiveMQ up to 5.19.10 and 6.3.1 counts it
  as one, so that a dead link stays open for ever.)

Known exceptions to ``classic``
* ActiveMQ abandons a check that comes less than 0.9 R after the previous one. On elapsed time with checks planned from
  the previous one's actual start this cannot happen, so it is not here.
* ActiveMQ skips read checks while a frame is being processed. Nothing blocks inside our broker, so no frame is ever
  "being processed" between two calls. A producer that flow control has stopped is the exception: see ``working``.
* ActiveMQ looks for blocked writes every 5 s; here the timer is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.instant import NS_PER_MS

#: Later than any instant that is ever compared with it.
_NEVER: Final = 1 << 120

#: How ActiveMQ names the failure.
EXCEPTION: Final = "org.apache.activemq.transport.InactivityIOException"

# What a check found.
NOTHING: Final = "nothing"
KEEP_ALIVE: Final = "keep-alive"
FAIL: Final = "fail"


class MonitorAction:
    """The result of one check.

    ``debug`` holds lines for the log of ActiveMQ's AbstractInactivityMonitor; ``reason`` and ``idle_ns`` belong to
    FAIL, and so does the line of the broker's transport, ``failure`` at ``level``.
    """

    __slots__ = ("debug", "failure", "idle_ns", "kind", "level", "reason")

    def __init__(
        self,
        kind: str,
        reason: str = "",
        idle_ns: int = 0,
        debug: tuple[str, ...] = (),
        *,
        level: str = "DEBUG",
        failure: str = "",
    ) -> None:
        self.kind = kind
        self.reason = reason
        self.idle_ns = idle_ns
        self.debug = debug
        self.level = level
        self.failure = failure


_QUIET: Final = MonitorAction(NOTHING)
_BEAT: Final = MonitorAction(KEEP_ALIVE)


class Periods:
    """What both ends agreed on. A period of 0 switches that direction off."""

    __slots__ = ("initial_delay_ms", "read_ms", "write_ms")

    def __init__(self, read_ms: int, write_ms: int, initial_delay_ms: int) -> None:
        self.read_ms = read_ms
        self.write_ms = write_ms
        self.initial_delay_ms = initial_delay_ms


def write_period_ms(read_ms: int) -> int:
    """W for a negotiated R: a third of it, or all of it when R is too small to be divided."""
    return read_ms // 3 if read_ms > 3 else read_ms


def negotiate(
    read_ms: int, initial_delay_ms: int, peer_read_ms: int | None, peer_initial_delay_ms: int | None
) -> Periods:
    """OpenWire: the shorter of both offers, each by itself.

    None (the peer left it out) counts as 0. R of 0 or less: no monitor on either side.
    Raises ValueError for a negative initial delay, with which ActiveMQ kills the connection too.
    """
    read = min(read_ms, peer_read_ms or 0)
    delay = min(initial_delay_ms, peer_initial_delay_ms or 0)
    if delay < 0:
        raise ValueError(f"the initial delay of the inactivity monitor is {delay} ms; offer 0 or more")
    if read <= 0:
        return Periods(0, 0, 0)
    return Periods(read, write_period_ms(read), delay)


def stomp_periods(generation: str, incoming_ms: int, outgoing_ms: int, grace: float = 1.0) -> Periods:
    """STOMP: the peer promised a beat every ``incoming_ms``, this side one every ``outgoing_ms``; 0 is no promise.

    ``classic`` takes both numbers as they are (read period = incoming, beat every outgoing). ``documented`` allows for
    sockets and schedulers, as STOMP 1.2 asks of a receiver ("Heart-beating": it should allow for an error margin): it
    reads with R = 2 x incoming, so that a beat may be late by a whole period before the link is cut in [R, 1.1 R]; and
    it beats every outgoing/2, so that its own promise survives a late timer. The initial delay is the smaller number in
    both. ``grace`` above 1 (hbGracePeriodMultiplier) is what the incoming period is multiplied by instead.
    """
    delay = min(incoming_ms, outgoing_ms)
    factor = 1 if generation == "classic" else 2
    read = int(incoming_ms * grace) if grace > 1 else incoming_ms * factor
    return Periods(read, (outgoing_ms + factor - 1) // factor, delay)


@mypyc_attr(allow_interpreted_subclasses=True)
class Monitor:
    """What both generations share: the connect check, the bookkeeping and the words.

    Subclasses plan and perform the read and write checks.
    """

    __slots__ = ("_address", "_connect_due_ns", "_connect_timeout_ms", "_last_byte_ns", "_read_due_ns",
                 "_read_ms", "_read_ns", "_read_timeout_ns", "_reading_due_ns", "_use_keep_alive", "_write_due_ns",
                 "_write_ns", "_write_timeout_ms", "_writing_due_ns")  # fmt: skip

    def __init__(
        self, address: str, now_ns: int, *, connect_timeout_ms: int = 30_000, use_keep_alive: bool = True
    ) -> None:
        """``address`` is the peer's, for the texts.

        ``connect_timeout_ms`` 0 or less: a peer that never says hello is left alone.
        """
        self._address = address
        self._connect_timeout_ms = connect_timeout_ms
        self._connect_due_ns = now_ns + connect_timeout_ms * NS_PER_MS if connect_timeout_ms > 0 else _NEVER
        self._use_keep_alive = use_keep_alive
        self._last_byte_ns = now_ns
        self._read_due_ns = _NEVER
        self._write_due_ns = _NEVER
        self._read_timeout_ns = 0
        self._reading_due_ns = _NEVER
        self._write_timeout_ms = 0
        self._writing_due_ns = _NEVER

    def limit_socket(self, now_ns: int, *, read_timeout_ms: int, write_timeout_ms: int) -> None:
        """soTimeout and soWriteTimeout; 0 or less is none."""
        if read_timeout_ms > 0:
            self._read_timeout_ns = read_timeout_ms * NS_PER_MS
            self._reading_due_ns = now_ns + self._read_timeout_ns
        self._write_timeout_ms = write_timeout_ms

    def start(self, now_ns: int, read_ms: int, write_ms: int, initial_delay_ms: int) -> None:
        """The handshake is complete, which comes once: it ends the connect check."""
        self._connect_due_ns = _NEVER
        base_ns = now_ns + initial_delay_ms * NS_PER_MS
        self._read_ms = read_ms
        self._read_ns = read_ms * NS_PER_MS
        self._write_ns = write_ms * NS_PER_MS if self._use_keep_alive else 0
        self._plan(base_ns)

    def bytes_received(self, now_ns: int) -> None:
        """At least one byte of anything arrived."""
        self._last_byte_ns = now_ns

    def frame_received(self, now_ns: int) -> None:
        """A complete command arrived. A bare STOMP newline is bytes, not a command."""

    def frame_sent(self, now_ns: int) -> None:
        """A frame was written. Not called for the keep-alives that this monitor asked for."""

    def working(self, now_ns: int) -> None:
        """A command of the peer is still being worked on (flow control has stopped it), so nobody listens to it: it
        counts as alive.
        """
        self.bytes_received(now_ns)

    def write_blocked(self, now_ns: int) -> None:
        """The transport takes nothing more for now."""
        if self._write_timeout_ms > 0 and self._writing_due_ns == _NEVER:
            self._writing_due_ns = now_ns + self._write_timeout_ms * NS_PER_MS

    def write_resumed(self) -> None:
        """The transport has taken what it was given."""
        self._writing_due_ns = _NEVER

    def idle_ns(self, now_ns: int) -> int:
        """Time since the last byte."""
        return now_ns - self._last_byte_ns

    def next_due_ns(self) -> int | None:
        """When ``tick`` wants to be called; None: not at all."""
        due = min(
            self._connect_due_ns, self._read_due_ns, self._write_due_ns, self._writing_due_ns, self._reading_due_ns
        )
        return due if due < _NEVER else None

    def tick(self, now_ns: int) -> MonitorAction:
        """Perform the first check that is due."""
        if now_ns >= self._connect_due_ns:
            limit = f"(>{self._connect_timeout_ms})"
            text = f"Channel was inactive (no connection attempt made) for too {limit} long: {self._address}"
            return self._fail(text, now_ns, ())
        if now_ns >= self._read_due_ns:
            return self._check_read(now_ns)
        if now_ns >= self._write_due_ns:
            return self._check_write(now_ns)
        if now_ns >= self._writing_due_ns:
            text = f"Forced write timeout: {self._address} took nothing for too (>{self._write_timeout_ms}) long"
            return self._fail(text, now_ns, ())
        if now_ns >= self._reading_due_ns:
            self._reading_due_ns = now_ns + self._read_timeout_ns
            self.read_timed_out(now_ns)
        return _QUIET

    def read_timed_out(self, now_ns: int) -> None:
        """Reading gave up and begins anew: nothing has arrived, so nothing changes."""

    def stop(self) -> None:
        """The connection is over, for whatever reason."""
        self._connect_due_ns = self._read_due_ns = self._write_due_ns = _NEVER
        self._writing_due_ns = self._reading_due_ns = _NEVER

    def _plan(self, base_ns: int) -> None:
        """Set the first due times.

        ``base_ns`` is the end of the initial delay; ``_read_ns`` and ``_write_ns`` are 0 for a direction that is off.
        """
        raise NotImplementedError

    def _check_read(self, now_ns: int) -> MonitorAction:
        raise NotImplementedError

    def _check_write(self, now_ns: int) -> MonitorAction:
        raise NotImplementedError

    def _fail_read(self, now_ns: int, since_check_ns: int) -> MonitorAction:
        """ActiveMQ's words, which operators search for (seed 001)."""
        debug = (self._elapsed(since_check_ns), self._silence())
        return self._fail(f"Channel was inactive for too (>{self._read_ms}) long: {self._address}", now_ns, debug)

    def _fail(self, reason: str, now_ns: int, debug: tuple[str, ...]) -> MonitorAction:
        self.stop()
        level, cause = self._blame(reason)
        failure = f"Transport Connection to: {self._address} failed: {cause}"
        return MonitorAction(FAIL, reason, self.idle_ns(now_ns), debug, level=level, failure=failure)

    # The seed page's words; later releases have others.

    def _elapsed(self, since_ns: int) -> str:
        return f"{since_ns // NS_PER_MS} ms elapsed since last read check."

    def _silence(self) -> str:
        return f"No message received since last read check for {self._address}! Throwing InactivityIOException."

    def _blame(self, reason: str) -> tuple[str, str]:
        return "DEBUG", f"{EXCEPTION}: {reason}"


@mypyc_attr(allow_interpreted_subclasses=True)
class DocumentedMonitor(Monitor):
    """Closes R after the last byte, but not before D + R after the handshake; beats W after the last frame written."""

    __slots__ = ("_base_ns", "_beats_from_ns", "_last_sent_ns")

    def beat_from(self, now_ns: int) -> None:
        """Keep-alives do not wait for the initial delay, which STOMP does not know. Call it after ``start``."""
        self._beats_from_ns = self._last_sent_ns = now_ns
        if self._write_ns:
            self._write_due_ns = now_ns + self._write_ns

    def frame_sent(self, now_ns: int) -> None:
        self._last_sent_ns = now_ns

    def _plan(self, base_ns: int) -> None:
        self._base_ns = self._beats_from_ns = self._last_sent_ns = base_ns
        if self._read_ns:
            self._read_due_ns = base_ns + self._read_ns
        if self._write_ns:
            self._write_due_ns = base_ns + self._write_ns

    def _check_read(self, now_ns: int) -> MonitorAction:
        since_ns = max(self._last_byte_ns, self._base_ns)
        due_ns = since_ns + self._read_ns
        if due_ns > now_ns:
            self._read_due_ns = due_ns
            return _QUIET
        return self._fail_read(now_ns, now_ns - since_ns)

    def _check_write(self, now_ns: int) -> MonitorAction:
        due_ns = max(self._last_sent_ns, self._beats_from_ns) + self._write_ns
        if due_ns > now_ns:
            self._write_due_ns = due_ns
            return _QUIET
        self._last_sent_ns = now_ns
        self._write_due_ns = now_ns + self._write_ns
        return _BEAT


@mypyc_attr(allow_interpreted_subclasses=True)
class ClassicMonitor(Monitor):
    """ActiveMQ's algorithm: checks at D, D + R, D + 2R …; two quiet intervals with no complete frame between close."""

    __slots__ = ("_bytes_seen", "_command_received", "_command_sent", "_last_check_ns")

    def bytes_received(self, now_ns: int) -> None:
        self._last_byte_ns = now_ns
        self._bytes_seen = True

    def frame_received(self, now_ns: int) -> None:  # noqa: ARG002 - the flag has no time in this algorithm
        self._command_received = True

    def frame_sent(self, now_ns: int) -> None:  # noqa: ARG002 - likewise
        self._command_sent = True

    def _plan(self, base_ns: int) -> None:
        self._last_check_ns = base_ns
        # The handshake's own bytes and frames count at the first checks.
        self._bytes_seen = self._command_received = self._command_sent = True
        if self._read_ns:
            self._read_due_ns = base_ns
        if self._write_ns:
            self._write_due_ns = base_ns

    def _check_read(self, now_ns: int) -> MonitorAction:
        since_ns = now_ns - self._last_check_ns
        self._last_check_ns = now_ns
        # Planned from this check's actual start, so that lateness accumulates instead of being caught up in bursts
        # (AMQ-3414).
        self._read_due_ns = now_ns + self._read_ns
        if self._bytes_seen:
            # Traffic does not set the flag again, only a complete frame does: that is why mid-frame silence is noticed
            # earlier.
            self._bytes_seen = False
        elif self._command_received:
            self._command_received = False
        else:
            return self._fail_read(now_ns, since_ns)
        return MonitorAction(NOTHING, debug=(self._elapsed(since_ns),))

    def _elapsed(self, since_ns: int) -> str:
        return f"{since_ns // NS_PER_MS}ms elapsed since last read check."

    def _silence(self) -> str:
        return f"No message received since last read check for {self._address}. Throwing InactivityIOException."

    def _blame(self, reason: str) -> tuple[str, str]:
        return "WARN", reason

    def _check_write(self, now_ns: int) -> MonitorAction:
        self._write_due_ns = now_ns + self._write_ns
        idle = not self._command_sent
        self._command_sent = False
        return _BEAT if idle else _QUIET


@mypyc_attr(allow_interpreted_subclasses=True)
class NoMonitor(Monitor):
    """This side has none (useInactivityMonitor=false): nothing is ever due."""

    __slots__ = ()

    def __init__(self, address: str, now_ns: int) -> None:
        super().__init__(address, now_ns, connect_timeout_ms=0)

    def _plan(self, base_ns: int) -> None:
        """Nothing."""


GENERATIONS: Final[dict[str, type[Monitor]]] = {"documented": DocumentedMonitor, "classic": ClassicMonitor}

#: Makes the broker's monitor of one connection: (configuration, peer's address, elapsed ns) -> monitor. A mutant
#: injects another one.
MonitorFactory = Callable[[BrokerConfig, str, int], Monitor]


def make_monitor(kind: type[Monitor], config: BrokerConfig, address: str, now_ns: int) -> Monitor:
    """A monitor of a class, with the broker's settings."""
    settings = config.monitor
    made = kind(address, now_ns, connect_timeout_ms=settings.connect_timeout_ms, use_keep_alive=settings.use_keep_alive)
    made.limit_socket(now_ns, read_timeout_ms=settings.read_timeout_ms, write_timeout_ms=settings.write_timeout_ms)
    return made


def monitor_for(config: BrokerConfig, address: str, now_ns: int) -> Monitor:
    """The monitor that the broker's configuration asks for."""
    settings = config.monitor
    if settings.use_monitor:
        return make_monitor(GENERATIONS[config.generation["monitor"]], config, address, now_ns)
    made = NoMonitor(address, now_ns)
    made.limit_socket(now_ns, read_timeout_ms=0, write_timeout_ms=settings.write_timeout_ms)
    return made
