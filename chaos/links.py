"""Links: a proxy in front of a broker's port whose line can be stalled, cut or slowed, and what really happened on it.

Decides: what the faults of a link are, and when a fault counts as having taken effect.
Rules: every link has a tap at each end (client -> tap -> proxy -> tap -> broker). The proxy is asked for a fault; the
taps, which know nothing of the request, say whether it came true. A stall is proven by bytes that were offered at one
end while none arrived at the other. No proof, for whatever reason, is `None`, and a verdict that needs the fault is
*not run*, never passed (DESIGN.md section 7).
Known exceptions: a stall that nobody offered a byte to cannot be proven. A held stall does not hold the end of a stream
unless bytes are held before it. `both` is proven by the sum of the directions.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Literal, Self

from brokerproof.chaos.ports import LOOPBACK
from brokerproof.chaos.taps import Flow, Tap

Way = Literal["client", "broker"]
Toward = Literal["client", "broker", "both"]
TOWARDS: tuple[Toward, ...] = ("client", "broker", "both")
_HELD_NS = 150_000_000
_UNREAD_NS = 20_000_000
_QUIET_NS = 5_000_000
_QUIET_DEADLINE_NS = 200_000_000


@dataclass(frozen=True)
class Traffic:
    """Bytes since the link was made, counted at its two ends. `toward_*`: (entered the line, left the line)."""

    toward_broker: tuple[int, int]
    toward_client: tuple[int, int]
    at_ns: int

    def of(self, toward: Toward) -> tuple[int, int]:
        """Bytes that entered and that left the line in a direction; for `both` the sums."""
        if toward == "broker":
            return self.toward_broker
        if toward == "client":
            return self.toward_client
        return self.toward_broker[0] + self.toward_client[0], self.toward_broker[1] + self.toward_client[1]


@dataclass(frozen=True)
class StallEvidence:
    """Proof of a stall: bytes that entered the line between two instants (monotonic), and the none that left it."""

    toward: Toward
    t0_ns: int
    t1_ns: int
    bytes_in: int
    bytes_out: int

    def as_dict(self) -> dict[str, int]:
        """As a history's fault event carries it (contracts.md section 2)."""
        return {"bytes_in": self.bytes_in, "bytes_out": self.bytes_out}


@dataclass(frozen=True)
class ResetEvidence:
    """Proof of a cut: how many open connections the proxy ended, seen at both ends."""

    t0_ns: int
    t1_ns: int
    client_ends: int
    broker_ends: int

    def as_dict(self) -> dict[str, int]:
        """As a history's fault event carries it."""
        return {"client_ends": self.client_ends, "broker_ends": self.broker_ends}


@dataclass(frozen=True)
class SeverEvidence:
    """Proof that connections ended when so many bytes had left the line since the limit was set, and not before."""

    t0_ns: int
    t1_ns: int
    bytes_out: int
    client_ends: int
    broker_ends: int

    def as_dict(self) -> dict[str, int]:
        """As a history's fault event carries it."""
        return {"bytes_out": self.bytes_out, "client_ends": self.client_ends, "broker_ends": self.broker_ends}


@dataclass(frozen=True)
class Crossing:
    """How bytes passed a line since its shape was set, both directions together: pieces that entered and left it, the
    longest that left it, and the shortest and the longest time on the way (None: nobody can tell).
    """

    pieces_in: int
    pieces_out: int
    longest_bytes: int
    least_us: int | None
    most_us: int | None


@dataclass(frozen=True)
class _Sever:
    """A limit in force: bytes that had left the line before it was asked for, and when it was in force."""

    toward: Way
    after_bytes: int
    least: int
    most: int
    at_ns: int


@dataclass(frozen=True)
class LinkEnd:
    """A connection's end as one of the two taps saw it: `who` ended it there, how, and when (monotonic)."""

    at: Literal["client", "broker"]
    who: Literal["client", "broker", "proxy"]
    how: str
    connection: int
    at_ns: int


class LinkProxy(ABC):
    """One link; clients connect to `port`. Subclasses say only how the line is made and asked for faults."""

    def __init__(self, name: str, broker_port: int, broker_host: str = LOOPBACK) -> None:
        self.name = name
        self.broker_port = broker_port
        self._broker_tap = Tap(broker_port, broker_host)
        try:
            self._client_tap = Tap(self._make_line(self._broker_tap.port))
        except BaseException:
            self._broker_tap.close()
            raise
        self._stalled: tuple[Toward, Traffic] | None = None
        self._sever: _Sever | None = None
        self._latency_us = 0
        self._latency_set_ns = 0
        self._shape_set_ns = 0

    @property
    def port(self) -> int:
        """Where the client connects, on loopback."""
        return self._client_tap.port

    @property
    def connections(self) -> int:
        """How many have come through it to the broker so far; the last one has this number."""
        return self._broker_tap.opened

    @abstractmethod
    def _make_line(self, target_port: int) -> int:
        """Make the line to a port; the port at which it can be entered."""

    @abstractmethod
    def _ask_stall(self, toward: Toward, *, drop: bool) -> None:
        """Ask the line to stall."""

    @abstractmethod
    def _ask_resume(self) -> None:
        """Ask the line to go on."""

    @abstractmethod
    def _ask_reset(self) -> None:
        """Ask the line to end all its connections; later ones work again."""

    @abstractmethod
    def _ask_sever(self, toward: Way, after_bytes: int) -> None:
        """Ask the line to end each connection that has passed so many bytes from now on; 0: ask for it no more."""

    @abstractmethod
    def _ask_latency(self, latency_us: int) -> int:
        """Ask the line to delay each direction; what it can really do."""

    @abstractmethod
    def _ask_shape(self, jitter_us: int, slice_bytes: int) -> None:
        """Ask the line to be late by up to twice ``jitter_us``, and to cut what it carries; 0: not to."""

    @abstractmethod
    def _unmake_line(self) -> None:
        """Undo `_make_line`."""

    def stall(self, toward: Toward, *, drop: bool = False) -> None:
        """Let nothing pass. Bytes are held, or with `drop` lost (then `resume` closes the connections). A limit of
        bytes is lifted: a line that is stalled behind one could not be rid of it.
        """
        if toward not in TOWARDS:
            raise ValueError(f"cannot stall toward {toward!r}; known: {', '.join(TOWARDS)}")
        if self._stalled is not None:
            raise ValueError(f"link {self.name} is stalled already, toward {self._stalled[0]}; resume it first")
        self.spare()
        self._ask_stall(toward, drop=drop)
        # What passed the proxy just before the stall may not have reached the far tap yet; it is not the stall's.
        self._stalled = (toward, self._quiet_traffic(toward))

    def resume(self) -> StallEvidence | None:
        """End the stall; the proof that it took effect, or None."""
        evidence = self.evidence()
        self._stalled = None
        self._ask_resume()
        return evidence

    def evidence(self) -> StallEvidence | None:
        """Proof that the stall in force has taken effect so far, or None.

        Bytes that entered just now may only be on their way, so this waits until the first of them have had time enough
        to pass a line that is open (0.15 s and twice the latency).
        """
        if self._stalled is None:
            return None
        toward, before = self._stalled
        first_ns = self._first_offer_ns(toward, before.at_ns)
        if first_ns is None:  # what was sent a moment ago may not have been read by the tap yet
            time.sleep(_UNREAD_NS / 1e9)
            first_ns = self._first_offer_ns(toward, before.at_ns)
        if first_ns is None:
            return None
        held_ns = _HELD_NS + 2000 * self._latency_us
        time.sleep(max(0, first_ns + held_ns - time.monotonic_ns()) / 1e9)
        now = self.traffic()
        bytes_in = now.of(toward)[0] - before.of(toward)[0]
        bytes_out = now.of(toward)[1] - before.of(toward)[1]
        if bytes_in == 0 or bytes_out != 0:
            return None
        return StallEvidence(toward, before.at_ns, now.at_ns, bytes_in, bytes_out)

    def reset(self, timeout_ms: int = 1000) -> ResetEvidence | None:
        """Cut all connections, so that both ends see a reset; the proof, or None if nothing was cut."""
        t0_ns = time.monotonic_ns()
        open_before = min(self._client_tap.open_connections, self._broker_tap.open_connections)
        self._client_tap.harden_side, self._broker_tap.harden_side = "far", "near"
        try:
            self._ask_reset()
            deadline_ns = time.monotonic_ns() + timeout_ms * 1_000_000
            while True:
                ends = [end for end in self.ends() if end.who == "proxy" and end.at_ns >= t0_ns]
                client_ends = sum(end.at == "client" for end in ends)
                broker_ends = len(ends) - client_ends
                if min(client_ends, broker_ends) >= open_before or time.monotonic_ns() > deadline_ns:
                    break
                time.sleep(0.001)
        finally:
            self._client_tap.harden_side = self._broker_tap.harden_side = None
        if not client_ends or not broker_ends:
            return None
        return ResetEvidence(t0_ns, time.monotonic_ns(), client_ends, broker_ends)

    def sever(self, toward: Way, after_bytes: int) -> None:
        """End connections when so many bytes more have passed in a direction; a second limit replaces the first."""
        if after_bytes < 1 or self._stalled is not None:
            raise ValueError(f"cannot sever {self.name} after {after_bytes} bytes, or it is stalled")
        self.spare()
        least = self._quiet_traffic(toward).of(toward)[1]
        self._ask_sever(toward, after_bytes)
        traffic = self.traffic()
        self._sever = _Sever(toward, after_bytes, least, traffic.of(toward)[1], traffic.at_ns)

    @property
    def half_severed(self) -> bool:
        """Whether a connection has ended at one end of the line only, so that the other is sure to follow."""
        return len({end.at for end in self._severed_ends()}) == 1

    def severed(self) -> SeverEvidence | None:
        """Proof that the limit in force has ended a connection, or None so far. What passed while it was being asked
        for may or may not have counted.
        """
        sever = self._sever
        if sever is None:
            return None
        ends = self._severed_ends()
        client_ends = sum(end.at == "client" for end in ends)
        if not client_ends or client_ends == len(ends):
            return None
        # Up to the end: what a next connection carries is not counted.
        ended_ns = next(end.at_ns for end in ends if end.at == sever.toward)
        marks = list(self._flows(sever.toward)[1].marks)
        passed = max((mark.total for mark in marks if mark.at_ns <= ended_ns), default=0)
        if not sever.least + sever.after_bytes <= passed <= sever.most + sever.after_bytes:
            return None
        counts = {"client_ends": client_ends, "broker_ends": len(ends) - client_ends}
        return SeverEvidence(ends[0].at_ns, ends[-1].at_ns, passed - sever.least, **counts)

    def _severed_ends(self) -> list[LinkEnd]:
        sever = self._sever
        return [] if sever is None else [one for one in self.ends() if one.who == "proxy" and one.at_ns >= sever.at_ns]

    def spare(self) -> None:
        """Take a limit away."""
        if self._sever is not None:
            self._sever = None
            self._ask_sever("client", 0)

    def latency(self, latency_us: int) -> int:
        """Delay each direction by so much, 0 for not at all; gives the delay that the proxy can really make."""
        if latency_us < 0:
            raise ValueError(f"latency {latency_us} us is negative")
        self._latency_us = self._ask_latency(latency_us)
        self._latency_set_ns = time.monotonic_ns()
        return self._latency_us

    def shape(self, *, jitter_us: int = 0, slice_bytes: int = 0) -> None:
        """Be late by up to twice so much, now more, now less, and cut what passes into slices; 0: do not."""
        self._ask_shape(jitter_us, slice_bytes)
        self._shape_set_ns = time.monotonic_ns()

    def crossing(self) -> Crossing:
        """How bytes have passed since the shape was set."""
        ways = [_crossing(*self._flows(way), self._shape_set_ns) for way in ("broker", "client")]
        spent = [us for one in ways for us in (one.least_us, one.most_us) if us is not None]
        return Crossing(
            sum(one.pieces_in for one in ways),
            sum(one.pieces_out for one in ways),
            max(one.longest_bytes for one in ways),
            min(spent, default=None),
            max(spent, default=None),
        )

    def limit(self, bytes_per_second: int) -> None:
        """Let no more pass in each direction of each connection that is made from now on, 0 for no limit."""
        self._broker_tap.bytes_per_second = bytes_per_second

    def transit_us(self, toward: Way) -> int | None:
        """Shortest time that bytes spent on the line since the latency was last set; None if none did."""
        return _transit_us(*self._flows(toward), self._latency_set_ns)

    def idle_ns(self, end: LinkEnd, *, within_ns: int) -> int | None:
        """The longest silence of a connection toward the end where it was ended, as bytes left the line, that lasted
        until at least so long before it ended: what came in the very last moment may not have been read. None if none
        left it before.
        """
        marks = list(self._flows(end.at)[1].marks)
        return longest_silence_ns(
            [one.at_ns for one in marks if one.connection == end.connection], end.at_ns, within_ns
        )

    def traffic(self) -> Traffic:
        """Bytes counted at both ends so far. Of each direction the far end is read first, so it never seems ahead."""
        broker_out, client_out = self._broker_tap.out.read_bytes, self._client_tap.back.read_bytes
        at_ns = time.monotonic_ns()
        broker_in, client_in = self._client_tap.out.read_bytes, self._broker_tap.back.read_bytes
        return Traffic((broker_in, broker_out), (client_in, client_out), at_ns)

    def ends(self) -> list[LinkEnd]:
        """Ends of connections as the two taps saw them, in the order of their instants."""
        found = [
            LinkEnd("client", "client" if end.side == "near" else "proxy", end.how, end.connection, end.at_ns)
            for end in list(self._client_tap.ends)
        ] + [
            LinkEnd("broker", "proxy" if end.side == "near" else "broker", end.how, end.connection, end.at_ns)
            for end in list(self._broker_tap.ends)
        ]
        return sorted(found, key=lambda end: end.at_ns)

    def close(self) -> None:
        """Take the link down."""
        self._client_tap.close()
        try:
            self._unmake_line()
        finally:
            self._broker_tap.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _flows(self, toward: Way) -> tuple[Flow, Flow]:
        """Where bytes in a direction enter the line and where they leave it."""
        if toward == "broker":
            return self._client_tap.out, self._broker_tap.out
        return self._broker_tap.back, self._client_tap.back

    def _first_offer_ns(self, toward: Toward, since_ns: int) -> int | None:
        """When the first byte in a direction entered the line after an instant; None if none did."""
        ways: tuple[Way, ...] = ("client", "broker") if toward == "both" else (toward,)
        offers = [one.at_ns for way in ways for one in list(self._flows(way)[0].marks) if one.at_ns >= since_ns]
        return min(offers, default=None)

    def _quiet_traffic(self, toward: Toward) -> Traffic:
        """The counts once nothing has come out for a moment; after a deadline as they are (then it is no stall)."""
        deadline_ns = time.monotonic_ns() + _QUIET_DEADLINE_NS
        seen = self.traffic()
        while seen.at_ns < deadline_ns:
            time.sleep(_QUIET_NS / 1e9)
            now = self.traffic()
            if now.of(toward)[1] == seen.of(toward)[1]:
                return now
            seen = now
        return seen


class PlainForwarder(LinkProxy):
    """The same link without a proxy in it: every fault is accepted and none happens, so it never has evidence."""

    def _make_line(self, target_port: int) -> int:
        return target_port

    def _ask_stall(self, toward: Toward, *, drop: bool) -> None:
        pass

    def _ask_resume(self) -> None:
        pass

    def _ask_reset(self) -> None:
        pass

    def _ask_sever(self, toward: Way, after_bytes: int) -> None:
        pass

    def _ask_latency(self, latency_us: int) -> int:  # noqa: ARG002  # it delays nothing
        return 0

    def _ask_shape(self, jitter_us: int, slice_bytes: int) -> None:
        pass

    def _unmake_line(self) -> None:
        pass


def _crossing(enter: Flow, leave: Flow, since_ns: int) -> Crossing:
    """Of one direction. The last byte of a piece that entered leaves with the piece that completes its total."""
    entered = [mark for mark in list(enter.marks) if mark.at_ns >= since_ns]
    left = [mark for mark in list(leave.marks) if mark.at_ns >= since_ns]
    pieces = [mark.total - before.total for before, mark in pairwise(left)]
    spent = []
    place = 0
    for mark in entered:
        while place < len(left) and left[place].total < mark.total:
            place += 1
        if place < len(left):
            spent.append((left[place].at_ns - mark.at_ns) // 1000)
    # Of the first piece it is not known what it began with.
    return Crossing(len(entered), len(left), max(pieces, default=0), min(spent, default=None), max(spent, default=None))


def longest_silence_ns(instants: Iterable[int], until_ns: int, within_ns: int) -> int | None:
    """Of the silences between instants, the last of them ``until_ns``, the longest that ended at most so long before
    that; None without an instant before it.
    """
    silences = pairwise([*(at_ns for at_ns in instants if at_ns <= until_ns), until_ns])
    return max((after - before for before, after in silences if after >= until_ns - within_ns), default=None)


def _transit_us(enter: Flow, leave: Flow, since_ns: int) -> int | None:
    """Shortest of (instant at which a total left) - (instant at which the same total entered)."""
    entered = {one.total: one.at_ns for one in list(enter.marks) if one.at_ns >= since_ns}
    spent = [one.at_ns - entered[one.total] for one in list(leave.marks) if one.total in entered]
    return min(spent) // 1000 if spent else None
