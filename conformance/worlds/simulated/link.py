"""A client's network path: latency, silent stalls, and what was on its way.

Rules:

* Each direction keeps order. Frames travel undecoded, unless the program asks for their bytes (``framings.py``).
* A stall holds back what *arrives* while it lasts; ``resume`` lets it through in order, at once. Nothing is lost and
  nobody is told.
* With jitter each item is late by a time of its own, and still in order.
* With a bandwidth, frames go one after the other, each for as long as its bytes take; while a frame is under way, bytes
  arrive every ``PROGRESS_NS`` and nothing else does. A stall stops these, too.
* The end of a stream travels like a frame, so a stalled direction hides it too.
* Toward the client a bounded number of frames fits (``FRAMES_MAX``); then the broker's writer waits, as it does for a
  full socket buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from brokerproof.conformance.experiment.history import PROTOCOL_BROKEN
from brokerproof.conformance.worlds.simulated.agenda import Action, Agenda, Party, fail
from brokerproof.reference_broker.session.framing import FramingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brokerproof.conformance.experiment.configuration import LinkSpec
    from brokerproof.conformance.worlds.simulated.framings import Framings

#: How often an end notices that bytes of a frame have arrived that is not complete yet.
PROGRESS_NS = 50_000_000
#: What a frame is taken to cost beside its body.
FRAME_BYTES = 200
#: Frames that fit between the broker's writer and a client that does not get them.
FRAMES_MAX = 16


class Opened:
    """Travels toward the broker: a new connection."""

    __slots__ = ("protocol",)

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol


class Some:
    """Some bytes of a frame."""

    __slots__ = ()


SOME = Some()


class Broken:
    """Bytes that are no frame: why the broker could not read them, or not write them, and the receipt that they asked
    for.
    """

    __slots__ = ("receipt", "text")

    def __init__(self, error: FramingError) -> None:
        self.text = error.text
        self.receipt = error.receipt


class Ended:
    """The end of the stream, in either direction."""

    __slots__ = ("at_ns", "reason")

    def __init__(self, reason: str, at_ns: int) -> None:
        self.reason = reason
        self.at_ns = at_ns


class Limit:
    """So many bytes more ``toward`` one end, and ``end`` ends the connection."""

    __slots__ = ("end", "left_bytes", "toward")

    def __init__(self, toward: str, after_bytes: int, end: Callable[[], None]) -> None:
        self.toward = toward
        self.left_bytes = after_bytes
        self.end = end


#: Multiples of the one, modulo the other, are spread evenly.
_SPREAD: Final = 2_654_435_769
_WHOLE: Final = 1 << 32
#: What travels and is no frame.
_NO_FRAMES: Final = frozenset({Opened, Some, Ended})


class BrokerEnd(Party, Protocol):
    """Where a link ends at the broker."""

    def arrived(self, link: Link, connection: int, item: object) -> None:
        """Something came from a client."""


class ClientEnd(Party, Protocol):
    """Where it ends at the client."""

    def receive(self, connection: int, item: object) -> None:
        """Something came from the broker."""


class _Travel(Action):
    """One item reaches an end of the link."""

    __slots__ = ("_connection", "_item", "_link")

    def __init__(self, link: Link, connection: int, item: object) -> None:
        self._link = link
        self._connection = connection
        self._item = item


class TravelUp(_Travel):
    """One item reaches the broker's end of the link, or is held back before it."""

    __slots__ = ()

    def happen(self) -> None:
        link = self._link
        link.agenda.moving -= 1
        if link.stalled_up or link.held_up:
            link.held_up.append((self._connection, self._item))
        else:
            link.pass_up(self._connection, self._item)

    def party(self) -> Party:
        return self._link.broker_end


class TravelDown(_Travel):
    """One item reaches the client's end of the link, or is held back before it."""

    __slots__ = ()

    def happen(self) -> None:
        link = self._link
        link.agenda.moving -= 1
        if link.stalled_down or link.held_down:
            link.held_down.append((self._connection, self._item))
        else:
            link.down -= 1
            link.pass_down(self._connection, self._item)

    def party(self) -> Party:
        return self._link.client_end


class Progress(Action):
    """Some bytes of a frame have arrived; the frame itself comes later."""

    __slots__ = ("_connection", "_left", "_link", "_up")

    def __init__(self, link: Link, connection: int, up: bool, left: int) -> None:
        self._link = link
        self._connection = connection
        self._up = up
        #: How many times more.
        self._left = left

    def happen(self) -> None:
        link = self._link
        if not (link.stalled_up if self._up else link.stalled_down):
            if self._up:
                link.broker_end.arrived(link, self._connection, SOME)
            else:
                link.client_end.receive(self._connection, SOME)
        if self._left:
            self._left -= 1
            link.agenda.plan(link.agenda.now_ns + PROGRESS_NS, self)

    def party(self) -> Party:
        return self._link.broker_end if self._up else self._link.client_end


class Link:
    """The path between one client and the broker."""

    #: The broker tells of it when it gives a connection over this link up.
    is_told = True
    client_end: ClientEnd

    def __init__(self, agenda: Agenda, broker_end: BrokerEnd, client: str, spec: LinkSpec) -> None:
        self.agenda = agenda
        self.broker_end = broker_end
        self.client = client
        self.latency_ns = spec.latency_us * 1000
        self._rate = spec.rate()
        self._jitter_us = spec.jitter_us
        #: How often something was late, and when the last one arrives in each direction.
        self._late = 0
        self._last_up_ns = 0
        self._last_down_ns = 0
        #: Until when each direction is busy with what was given to it.
        self._free_up_ns = 0
        self._free_down_ns = 0
        #: When a limit of bytes ends the connection.
        self._limit: Limit | None = None
        self.stalled_up = False
        self.stalled_down = False
        self.held_up: list[tuple[int, object]] = []
        self.held_down: list[tuple[int, object]] = []
        #: Frames on their way toward the client, held ones included.
        self.down = 0
        #: Connections whose frames travel as bytes.
        self.framings: dict[int, Framings] = {}

    def is_full(self) -> bool:
        """Whether the broker's writer must wait."""
        return self.stalled_down and self.down >= FRAMES_MAX

    def to_broker(self, connection: int, item: object) -> None:
        """Something leaves the client."""
        framings = self.framings.get(connection)
        if framings is None or type(item) in _NO_FRAMES:
            self._send_up(connection, item)
            return
        try:
            found: Sequence[object] = framings.to_broker(item)
        except FramingError as error:
            found = [*error.frames, Broken(error)]
        for frame in found:
            self._send_up(connection, frame)

    def _send_up(self, connection: int, item: object) -> None:
        agenda = self.agenda
        agenda.moving += 1
        sent_ns = agenda.now_ns
        if self._rate:
            sent_ns = self._free_up_ns = self._transfer(connection, item, self._free_up_ns, up=True)
        at_ns = sent_ns + self.latency_ns
        if self._jitter_us:
            at_ns = self._last_up_ns = max(self._last_up_ns, at_ns + self._lateness_ns())
        agenda.plan(at_ns, TravelUp(self, connection, item))

    def to_client(self, connection: int, frame: object) -> None:
        """A frame leaves the broker."""
        framings = self.framings.get(connection)
        if framings is None or type(frame) is Ended:
            self._send_down(connection, frame)
            return
        try:
            data = framings.write(frame)
        except FramingError as error:
            self.broker_end.arrived(self, connection, Broken(error))
            return
        try:
            found = framings.to_client(data)
        except FramingError as error:
            self.to_broker(connection, Ended("client gone", self.agenda.now_ns))
            found = [*error.frames, Ended(f"{PROTOCOL_BROKEN}{error.text}", self.agenda.now_ns)]
        for item in found:
            self._send_down(connection, item)

    def _send_down(self, connection: int, frame: object) -> None:
        self.down += 1
        agenda = self.agenda
        agenda.moving += 1
        sent_ns = agenda.now_ns
        if self._rate:
            sent_ns = self._free_down_ns = self._transfer(connection, frame, self._free_down_ns, up=False)
        at_ns = sent_ns + self.latency_ns
        if self._jitter_us:
            at_ns = self._last_down_ns = max(self._last_down_ns, at_ns + self._lateness_ns())
        agenda.plan(at_ns, TravelDown(self, connection, frame))

    def _lateness_ns(self) -> int:
        """How late the next one is: all over the range, the same in each run."""
        self._late += 1
        part = self._late * _SPREAD % _WHOLE
        return 2000 * self._jitter_us * part // _WHOLE

    def longest_ns(self) -> int:
        """The longest way."""
        return self.latency_ns + 2000 * self._jitter_us

    def _transfer(self, connection: int, item: object, free_ns: int, *, up: bool) -> int:
        """Plan the arrival of an item's bytes; when the last one has been sent."""
        agenda = self.agenda
        begin_ns = max(agenda.now_ns, free_ns)
        end_ns = begin_ns + bytes_of(item) * 1_000_000_000 // self._rate
        times = (end_ns - begin_ns) // PROGRESS_NS
        if times > 0:
            agenda.plan(begin_ns + self.latency_ns + PROGRESS_NS, Progress(self, connection, up, times - 1))
        return end_ns

    def clear(self) -> None:
        """A new socket: what an old one had not sent yet is not in its way, and its limit is not this one's."""
        self._free_up_ns = self._free_down_ns = self._last_up_ns = self._last_down_ns = 0
        self._limit = None

    def limit(self, limit: Limit | None) -> None:
        """Let no more pass on this connection than it says; None: as much as there is."""
        self._limit = limit

    def pass_up(self, connection: int, item: object) -> None:
        """An item reaches the broker, unless a limit ends the connection in the midst of it."""
        limit = self._limit
        if limit is None or limit.toward == "client" or type(item) in _NO_FRAMES:
            self.broker_end.arrived(self, connection, item)
            return
        limit.left_bytes -= bytes_of(item)
        if limit.left_bytes >= 0:
            self.broker_end.arrived(self, connection, item)
        self._end(limit)

    def pass_down(self, connection: int, item: object) -> None:
        """An item reaches the client, unless a limit ends the connection in the midst of it."""
        limit = self._limit
        if limit is None or limit.toward == "broker" or type(item) in _NO_FRAMES:
            self.client_end.receive(connection, item)
            return
        limit.left_bytes -= bytes_of(item)
        if limit.left_bytes >= 0:
            self.client_end.receive(connection, item)
        self._end(limit)

    def _end(self, limit: Limit) -> None:
        if limit.left_bytes <= 0 and limit is self._limit:
            self._limit = None
            limit.end()

    def busy_ns(self) -> int:
        """For how long what was given to it keeps it busy, in both directions together."""
        now_ns = self.agenda.now_ns
        return max(0, self._free_up_ns - now_ns) + max(0, self._free_down_ns - now_ns)

    def end_to_client(self, connection: int, reason: str) -> None:
        """The broker closed the connection."""
        self.to_client(connection, Ended(reason, self.agenda.now_ns))

    def stall(self, toward: str) -> None:
        """Hold back what travels toward ``broker``, ``client`` or ``both``; a limit is lifted, as live."""
        self._limit = None
        self.stalled_up = toward in {"broker", "both"}
        self.stalled_down = toward in {"client", "both"}

    def resume(self) -> None:
        """Let everything through, oldest first."""
        self.stalled_up = False
        self.stalled_down = False
        while self.held_up:
            connection, item = self.held_up.pop(0)
            try:
                self.pass_up(connection, item)
            except Exception as error:  # noqa: BLE001 - whatever the broker does wrong
                fail(self.broker_end, error)
        while self.held_down:
            connection, item = self.held_down.pop(0)
            self.down -= 1
            try:
                self.pass_down(connection, item)
            except Exception as error:  # noqa: BLE001 - whatever the library does wrong
                fail(self.client_end, error)

    def held(self) -> int:
        """How many items are held back now."""
        return len(self.held_up) + len(self.held_down)


def bytes_of(item: object) -> int:
    """What an item costs on the wire, about."""
    holder = getattr(item, "message", item)
    return FRAME_BYTES + len(getattr(holder, "body", b""))
