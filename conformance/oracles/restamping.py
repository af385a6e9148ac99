"""Oracle: time-stamping where it must not act, cannot, or acts again. Judges TSP-013, TSP-015 and TSP-016.

Abstract model as in ``timestamping.py``. A message that came over a network bridge was stamped by another broker, and
is left alone unless ``process_network_messages``. A sum of time that does not fit into 64 bits is none: the expiration
stays. An operator's move is, or is not, a send as far as the plug-in is concerned: ``restamp_moved`` declares which.

Analyses:

1. TSP-013: what came over a bridge arrives with the stamps that it was sent with; or, if it is to be processed, with a
   timestamp of the broker's.
2. TSP-015: the time to live overflows whatever the broker's clock showed at acceptance, and the expiration arrives as
   it was sent.
3. TSP-016: a message with an expiration arrives at the queue that an operator moved it to: with a timestamp of the move
   if moves restart lives, with one of the send otherwise. Its time to live is the same either way.

Not checked: under ``future_only``; delayed messages; 3 where send and move cannot be told apart by the broker's clock,
or there were two moves. Must change together: ``stamp.py``, timestamping.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Arrive, ClockSample, Event, Fault, Header, Operate, Send
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.dial import Dial
from brokerproof.conformance.oracles.stamp import INT64_MAX

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import TimeStampingSpec
    from brokerproof.conformance.oracles.wall import WallClocks


class RestampingOracle(Oracle):
    """See the module's header."""

    name = "restamping"
    requirements = ("TSP-013", "TSP-015", "TSP-016")
    kinds = ("send", "arrive", "operate", "clock_sample", "fault")
    faults = ("clock",)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._spec: TimeStampingSpec | None = None
        self._dial = Dial(clocks, "")
        self._sends: dict[str, Send] = {}
        self._arrivals: list[Arrive] = []
        self._moves: list[Operate] = []

    def start(self, header: Header) -> None:
        self._spec = header.declared.timestamping
        self._dial = Dial(self.clocks, header.broker_host)

    def is_concerned(self) -> bool:
        return self._spec is not None

    def feed(self, event: Event) -> None:
        if isinstance(event, ClockSample):
            if event.host == self._dial.host:
                self._dial.sample(event)
        elif isinstance(event, Fault):
            if event.fault == "clock" and event.target == self._dial.host:
                self._dial.fault(event)
        elif isinstance(event, Send):
            self._sends[event.message] = event
        elif isinstance(event, Arrive):
            self._arrivals.append(event)
        elif isinstance(event, Operate) and event.op == "move" and event.result != "fail":
            self._moves.append(event)

    def conclude(self) -> None:
        spec = self._spec
        if spec is None or not self._dial.known:
            return
        for arrival in self._arrivals:
            send = self._sends.get(arrival.message)
            if send is None or DEAD_LETTERS in (arrival.dest, send.dest) or not (send.timestamp_ms or 0) > 0:
                continue
            if send.delay_ms or send.deliver_at_ms is not None or send.life_ms or send.result != "ok":
                continue
            if arrival.dest != send.dest:
                self._moved(spec, send, arrival)
            elif send.network:
                self._bridged(spec, send, arrival)
            elif send.expiration_ms > 0 and not spec.future_only:
                self._overflow(spec, send, arrival)

    def _read_ms(self, event: Event) -> tuple[int, int]:
        """What the broker's clock can have shown during an event."""
        return self._dial.bounds_ms(event.t0, event.t1, event.seq, event.seq)

    def _bridged(self, spec: TimeStampingSpec, send: Send, arrival: Arrive) -> None:
        claim = self.claims["TSP-013"]
        low_ms, high_ms = self._read_ms(send)
        stamps = (arrival.timestamp_ms, max(0, arrival.expiration_ms))
        kept = stamps == (send.timestamp_ms, max(0, send.expiration_ms))
        text = (
            f"{send.message} came over a network bridge with timestamp {send.timestamp_ms} and expiration "
            f"{send.expiration_ms}; it arrived with {stamps[0]} and {stamps[1]}"
        )
        if not spec.process_network_messages:
            if kept:
                claim.hold("left alone", outcome="as-configured")
            else:
                claim.fail(f"{text}, and must not be stamped", [send.seq, arrival.seq], outcome="stamped")
        elif low_ms <= arrival.timestamp_ms <= high_ms:
            claim.hold("processed", outcome="as-configured")
        elif not spec.future_only:
            text = f"{text}; the broker's clock read {low_ms} to {high_ms}, and such messages are to be stamped"
            claim.fail(text, [send.seq, arrival.seq], outcome="not-stamped")

    def _overflow(self, spec: TimeStampingSpec, send: Send, arrival: Arrive) -> None:
        life_ms = send.expiration_ms - (send.timestamp_ms or 0)
        low_ms, _ = self._read_ms(send)
        if low_ms + life_ms <= INT64_MAX or spec.ttl_ceiling_ms > 0:
            return
        claim = self.claims["TSP-015"]
        if arrival.expiration_ms == send.expiration_ms:
            claim.hold("it overflowed", outcome="unchanged")
            return
        text = (
            f"{send.message} was sent with a time to live of {life_ms} ms; with the broker's time that does not fit "
            f"into 64 bits; its expiration {send.expiration_ms} became {arrival.expiration_ms}"
        )
        claim.fail(text, [send.seq, arrival.seq], outcome="changed")

    def _moved(self, spec: TimeStampingSpec, send: Send, arrival: Arrive) -> None:
        moves = [move for move in self._moves if move.to == arrival.dest and send.t1 <= move.t0 <= arrival.t1]
        life_ms = send.expiration_ms - (send.timestamp_ms or 0)
        if spec.future_only or send.network or len(moves) != 1 or not life_ms > 0:
            return
        move = moves[0]
        if send.tx is not None or (spec.ttl_ceiling_ms > 0 and life_ms > spec.ttl_ceiling_ms):
            return
        first, second = self._read_ms(send), self._read_ms(move)
        if first[0] <= second[1] and second[0] <= first[1]:
            return  # the clock says the same of both
        claim = self.claims["TSP-016"]
        wanted, other = (second, first) if spec.restamp_moved else (first, second)
        stamped_ms = arrival.timestamp_ms
        if wanted[0] <= stamped_ms <= wanted[1] and arrival.expiration_ms - stamped_ms == life_ms:
            claim.hold("restarted" if spec.restamp_moved else "kept", outcome="as-declared")
            return
        text = (
            f"{send.message} (time to live {life_ms} ms) was moved to {arrival.dest}; it arrived with timestamp "
            f"{stamped_ms} and expiration {arrival.expiration_ms}; declared is a timestamp of {wanted[0]} to "
            f"{wanted[1]}, not of {other[0]} to {other[1]}"
        )
        claim.fail(text, [send.seq, move.seq, arrival.seq], outcome="otherwise")
