"""Oracle: what a time-stamping broker does to timestamp and expiration (TSP), and that any other broker leaves them
alone.

Abstract model. A message is sent with (timestamp, expiration) by the producer's clock. A broker with the plug-in
rewrites both once, from its own clock at the instant ``n`` at which it takes the message over, by the rule in
``stamp.py``. From then on nothing changes them: not a redelivery, not the move to the dead-letter queue (which only
clears the expiration). ``n`` lies between the writing of the send and its receipt (for a send of unknown result: the
first arrival), so the broker's clock reads something in ``[n_low, n_high]``, whole milliseconds.

Events: ``send`` (what the client stamped), ``arrive`` (what came out; dead letters are those on the dead-letter
queue), ``clock_sample`` and clock ``fault`` of the broker.

Analyses:

1. TSP-001: the timestamp that arrives is one that the broker's clock showed at acceptance, for every message that the
   rule touches whatever ``n`` was.
2. TSP-002: expiration minus timestamp is what was sent, when no ceiling caps it.
3. TSP-003 (futureOnly): the expiration that arrives is not lower than the one that was sent, nor lower than at an
   earlier arrival. Absent expirations are not comparable.
4. TSP-004: a time to live above the ceiling arrives as the ceiling, one at or below it as it was.
5. TSP-005: without expiration, the override (capped) is counted from the timestamp that arrives; without an override
   the message still has none.
6. TSP-006: timestamp <= 0: both untouched.
7. TSP-007: without the plug-in both arrive as sent.
8. TSP-008: a dead letter has the timestamp that the message had on its queue, and no override was applied to it.
9. TSP-009: ``0 < expiration <= timestamp``: the expiration stays, the timestamp is replaced. Such messages mostly die
   on arrival; then their dead letters show the timestamp.
10. TSP-010 (futureOnly): a message whose time to live no ceiling caps and whose recomputed expiration is not later
    arrives untouched.
11. TSP-011 (futureOnly): without expiration, the timestamp that arrives is not earlier than the one that was sent.
12. TSP-012 (futureOnly and a ceiling that caps): the expiration that arrives is not later than the ceiling after the
    later of the two clocks.

Not checked. Delayed messages: a scheduler may stamp again when it releases (DESIGN section 5 puts it outside the
claim). Expirations of dead letters: cleared by rule, so monotonicity does not apply. Messages that nobody received.

A message whose ``n`` may lie on either side of the futureOnly comparison is no instance of 1, 2, 4 or 10. One that a
ceiling caps under futureOnly is an instance of 3 (as far as the ceiling allows) and 12 only: the two readings of
``stamp.py`` differ there. Must change together: ``stamp.py``, timestamping.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.history import Arrive, ClockSample, Event, Fault, Header, Send
from brokerproof.conformance.oracles.base import Oracle
from brokerproof.conformance.oracles.dial import NS_PER_MS, Dial
from brokerproof.conformance.oracles.stamp import (
    INT64_MAX,
    Stamps,
    divided,
    documented_ms,
    skew_of,
    spec_for,
    stamps_of,
    ttl_ms,
)

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import TimeStampingSpec
    from brokerproof.conformance.oracles.wall import WallClocks

#: If the broker's clock is known no better than this at acceptance, a kept timestamp cannot be told from a replaced
#: one.
WIDE_MS = 1000


class Taken:
    """A message at the moment when the broker took it over: bounds of the broker's clock, and the rule's answer at
    both ends.
    """

    __slots__ = ("high", "high_ms", "low", "low_ms", "send", "skew")

    def __init__(self, send: Send, spec: TimeStampingSpec, low_ms: int, high_ms: int) -> None:
        self.send = send
        self.low_ms = low_ms
        self.high_ms = high_ms
        self.low: Stamps = stamps_of(spec, send.timestamp_ms, send.expiration_ms, low_ms)
        self.high: Stamps = stamps_of(spec, send.timestamp_ms, send.expiration_ms, high_ms)
        self.skew = skew_of(send.timestamp_ms, low_ms, high_ms)

    def acts(self) -> bool | None:
        """Whether the rule touches the message; None if that depends on the instant."""
        return self.low.acted if self.low.acted is self.high.acted else None

    def read(self) -> str:
        """For texts."""
        return f"the broker's clock read {self.low_ms} to {self.high_ms}"

    def is_now(self, timestamp_ms: int) -> bool:
        """Whether the broker's clock can have shown this at acceptance."""
        return self.low_ms <= timestamp_ms <= self.high_ms


class TimeStampingOracle(Oracle):
    """See the module's header."""

    name = "timestamping"
    requirements = tuple(f"TSP-{number:03d}" for number in range(1, 13))
    kinds = ("send", "arrive", "clock_sample", "fault")
    faults = ("clock",)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._spec: TimeStampingSpec | None = None
        self._dial = Dial(clocks, "")
        self._sends: dict[str, Send] = {}
        self._arrivals: list[Arrive] = []
        #: Message -> its latest arrival on its own destination.
        self._seen: dict[str, Arrive] = {}
        self._taken: dict[str, Taken] = {}

    def start(self, header: Header) -> None:
        self._spec = header.declared.timestamping
        self._dial = Dial(self.clocks, header.broker_host)

    def feed(self, event: Event) -> None:
        if isinstance(event, Arrive):
            self._arrivals.append(event)
        elif isinstance(event, Send):
            self._sends[event.message] = event
        elif isinstance(event, ClockSample):
            if event.host == self._dial.host:
                self._dial.sample(event)
        elif isinstance(event, Fault) and event.fault == "clock" and event.target == self._dial.host:
            self._dial.fault(event)

    def conclude(self) -> None:
        spec = self._spec
        for arrival in self._arrivals:
            send = self._sends.get(arrival.message)
            if send is None or send.dest == DEAD_LETTERS or send.delay_ms or send.deliver_at_ms or send.life_ms:
                continue
            moved = arrival.dest not in (send.dest, DEAD_LETTERS)
            if moved or spec_for(spec, send) is not spec:
                continue  # ``restamping.py``
            if spec is None:
                if arrival.dest != DEAD_LETTERS:
                    self._untouched("TSP-007", send, arrival)
                continue
            taken = self._take(spec, send, arrival)
            if taken is None:
                continue
            if arrival.dest == DEAD_LETTERS:
                self._judge_letter(spec, taken, arrival)
            else:
                self._judge(spec, taken, arrival)
                self._seen[arrival.message] = arrival

    def _take(self, spec: TimeStampingSpec, send: Send, arrival: Arrive) -> Taken | None:
        known = self._taken.get(send.message)
        if known is not None:
            return known
        if not self._dial.known:
            self.claims["TSP-001"].doubt(
                f"the clock of broker host {self._dial.host!r} was never sampled", [send.seq, arrival.seq], 0
            )
            return None
        accepted: Event = send if send.result == "ok" else arrival
        low_ms, high_ms = self._dial.bounds_ms(send.t0, max(send.t0, accepted.t1), send.seq, accepted.seq)
        taken = Taken(send, spec, low_ms, high_ms)
        self._taken[send.message] = taken
        return taken

    # -- messages

    def _untouched(self, requirement: str, send: Send, arrival: Arrive) -> None:
        """TSP-006, TSP-007, and the kept side of TSP-010."""
        claim = self.claims[requirement]
        sent_ms = send.timestamp_ms
        stamp_kept = sent_ms is None or arrival.timestamp_ms == sent_ms
        expiration_kept = arrival.expiration_ms == send.expiration_ms or (
            arrival.expiration_ms <= 0 and send.expiration_ms <= 0
        )
        if stamp_kept and expiration_kept:
            situation = (
                "a message was delivered again" if arrival.redelivered else "a message with an expiration was delivered"
            )
            claim.hold(situation if arrival.redelivered or send.expiration_ms > 0 else "", outcome="untouched")
            return
        claim.fail(
            f"{send.message} was sent with timestamp {sent_ms} and expiration {send.expiration_ms}, which this broker "
            f"must not touch; it arrived with {_stamps(arrival)}",
            [send.seq, arrival.seq],
            outcome="changed",
        )

    def _judge(self, spec: TimeStampingSpec, taken: Taken, arrival: Arrive) -> None:
        send = taken.send
        sent_ms = send.timestamp_ms
        if sent_ms is not None and sent_ms <= 0:
            self._untouched("TSP-006", send, arrival)
            return
        if spec.future_only:
            self._judge_monotone(taken, arrival)
            if sent_ms is not None and send.expiration_ms <= 0:
                self._judge_backwards(taken, arrival)
            elif sent_ms is not None and divided(spec, sent_ms, send.expiration_ms):
                self._judge_ceiling(spec, taken, arrival)
                return
            elif sent_ms is not None:
                self._judge_boundary(taken, arrival)
        if taken.acts() is None:
            return
        if sent_ms is not None and 0 < send.expiration_ms <= sent_ms:
            self._judge_dead_born(taken, arrival)
        elif taken.acts():
            self._judge_timestamp(taken, arrival)
            if send.expiration_ms <= 0:
                self._judge_override(spec, taken, arrival)
            elif sent_ms is not None:
                self._judge_ttl(spec, taken, arrival)

    def _judge_timestamp(self, taken: Taken, arrival: Arrive) -> None:
        claim = self.claims["TSP-001"]
        send = taken.send
        if not taken.is_now(arrival.timestamp_ms):
            if (
                self._spec is not None
                and self._spec.future_only
                and send.expiration_ms <= 0
                and arrival.timestamp_ms == send.timestamp_ms
            ):
                return  # kept, as the plug-in's page says and ActiveMQ does not; TSP-011
            off_ms = (
                taken.low_ms - arrival.timestamp_ms
                if arrival.timestamp_ms < taken.low_ms
                else arrival.timestamp_ms - taken.high_ms
            )
            claim.fail(
                f"{send.message} arrived with timestamp {arrival.timestamp_ms}; at acceptance {taken.read()} "
                f"({off_ms} ms off; the producer stamped {send.timestamp_ms})",
                [send.seq, arrival.seq],
                outcome="other-time",
                slack_ns=-off_ms * NS_PER_MS,
            )
        elif arrival.timestamp_ms == send.timestamp_ms and taken.high_ms - taken.low_ms > WIDE_MS:
            if send.result != "ok":
                return  # when it was taken over is not known: no instance
            claim.doubt(
                f"{send.message} arrived with timestamp {arrival.timestamp_ms} as sent; the broker's time may be the "
                "same",
                [send.seq, arrival.seq],
                (taken.high_ms - taken.low_ms) * NS_PER_MS,
            )
        else:
            claim.hold(taken.skew, outcome="broker-time")

    def _judge_ttl(self, spec: TimeStampingSpec, taken: Taken, arrival: Arrive) -> None:
        """TSP-002, TSP-004."""
        send = taken.send
        sent_ms = send.timestamp_ms or 0
        asked_ms = send.expiration_ms - sent_ms
        capped_ms = ttl_ms(spec, sent_ms, send.expiration_ms)
        if taken.high_ms + capped_ms > INT64_MAX:
            return  # the sum does not fit; the expiration stays (clause of the plug-in's page, not of these two)
        lived_ms = arrival.expiration_ms - arrival.timestamp_ms
        ceiling = spec.ttl_ceiling_ms > 0
        if lived_ms == capped_ms:
            if asked_ms == capped_ms:
                self.claims["TSP-002"].hold(taken.skew, outcome="preserved")
            if ceiling:
                above = (
                    "a time to live above the ceiling"
                    if asked_ms > capped_ms
                    else "a time to live at or below the ceiling"
                )
                self.claims["TSP-004"].hold(above, outcome="capped")
            return
        requirement, outcome = ("TSP-004", "not-capped") if ceiling else ("TSP-002", "altered")
        under = f" under a ceiling of {spec.ttl_ceiling_ms} ms" if ceiling else ""
        self.claims[requirement].fail(
            f"{send.message} was sent with a time to live of {asked_ms} ms{under}; it arrived with {_stamps(arrival)}, "
            f"which is {lived_ms} ms instead of {capped_ms} ms",
            [send.seq, arrival.seq],
            outcome=outcome,
            slack_ns=-abs(lived_ms - capped_ms) * NS_PER_MS,
        )

    def _judge_override(self, spec: TimeStampingSpec, taken: Taken, arrival: Arrive) -> None:
        """TSP-005."""
        claim = self.claims["TSP-005"]
        send = taken.send
        wanted_ms = ttl_ms(spec, 0, 0)
        if wanted_ms <= 0:
            if arrival.expiration_ms <= 0:
                claim.hold("no override was configured", outcome="override")
                return
        elif taken.low_ms + wanted_ms <= arrival.expiration_ms <= taken.high_ms + wanted_ms and (
            arrival.expiration_ms - arrival.timestamp_ms == wanted_ms or arrival.timestamp_ms == send.timestamp_ms
        ):
            capped = 0 < spec.ttl_ceiling_ms < spec.zero_expiration_override_ms
            claim.hold("the ceiling capped the override" if capped else "the override was applied", outcome="override")
            return
        claim.fail(
            f"{send.message} was sent without expiration; the override is {spec.zero_expiration_override_ms} ms, the "
            f"ceiling {spec.ttl_ceiling_ms} ms; it arrived with {_stamps(arrival)}; {taken.read()}",
            [send.seq, arrival.seq],
            outcome="other",
        )

    def _judge_monotone(self, taken: Taken, arrival: Arrive) -> None:
        """TSP-003."""
        claim = self.claims["TSP-003"]
        send = taken.send
        if send.expiration_ms <= 0:
            return
        before = self._seen.get(send.message)
        least_ms = send.expiration_ms
        spec, sent_ms = self._spec, send.timestamp_ms
        if spec is not None and spec.ttl_ceiling_ms > 0:
            # Without a timestamp of its own the time to live is not known: nothing is claimed.
            least_ms = 0 if sent_ms is None else min(least_ms, sent_ms + spec.ttl_ceiling_ms)
        if before is not None:
            least_ms = max(least_ms, before.expiration_ms)
        if arrival.expiration_ms <= 0 or arrival.expiration_ms >= least_ms:
            claim.hold(taken.skew, slack_ns=max(0, arrival.expiration_ms - least_ms) * NS_PER_MS, outcome="not-lowered")
            return
        claim.fail(
            f"futureOnly: {send.message} had expiration {least_ms} and arrived with {arrival.expiration_ms}, "
            f"{least_ms - arrival.expiration_ms} ms lower",
            [send.seq, arrival.seq] if before is None else [send.seq, before.seq, arrival.seq],
            outcome="lowered",
            slack_ns=(arrival.expiration_ms - least_ms) * NS_PER_MS,
        )

    def _judge_backwards(self, taken: Taken, arrival: Arrive) -> None:
        """TSP-011."""
        send = taken.send
        sent_ms = send.timestamp_ms or 0
        if arrival.timestamp_ms >= sent_ms:
            self.claims["TSP-011"].hold(
                taken.skew, slack_ns=(arrival.timestamp_ms - sent_ms) * NS_PER_MS, outcome="not-moved-back"
            )
            return
        self.claims["TSP-011"].fail(
            f"futureOnly: {send.message} was sent without expiration and with timestamp {sent_ms}; it arrived with "
            f"timestamp {arrival.timestamp_ms}, {sent_ms - arrival.timestamp_ms} ms earlier; {taken.read()}",
            [send.seq, arrival.seq],
            outcome="moved-back",
            slack_ns=(arrival.timestamp_ms - sent_ms) * NS_PER_MS,
        )

    def _judge_ceiling(self, spec: TimeStampingSpec, taken: Taken, arrival: Arrive) -> None:
        """TSP-012."""
        send = taken.send
        sent_ms = send.timestamp_ms or 0
        low_ms = documented_ms(spec, sent_ms, send.expiration_ms, taken.low_ms)
        high_ms = documented_ms(spec, sent_ms, send.expiration_ms, taken.high_ms)
        if high_ms > INT64_MAX:
            return  # the sum does not fit; the expiration stays
        claim = self.claims["TSP-012"]
        if arrival.expiration_ms <= low_ms:
            claim.hold(taken.skew, outcome="capped")
            return
        text = (
            f"futureOnly: {send.message} was sent with a time to live of {send.expiration_ms - sent_ms} ms under a "
            f"ceiling of {spec.ttl_ceiling_ms} ms; it arrived with {_stamps(arrival)}; {taken.read()}, so the ceiling "
            f"ends at {high_ms}"
        )
        if arrival.expiration_ms > high_ms:
            claim.fail(
                text,
                [send.seq, arrival.seq],
                outcome="not-capped",
                slack_ns=(high_ms - arrival.expiration_ms) * NS_PER_MS,
            )
        elif high_ms - low_ms > WIDE_MS:
            if send.result != "ok":
                return  # when it was taken over is not known: no instance
            claim.doubt(text, [send.seq, arrival.seq], (high_ms - low_ms) * NS_PER_MS)
        else:
            claim.hold(taken.skew, outcome="capped")

    def _judge_boundary(self, taken: Taken, arrival: Arrive) -> None:
        """TSP-010."""
        if taken.acts() is False:
            self._untouched("TSP-010", taken.send, arrival)
            claim = self.claims["TSP-010"]
            if not claim.violated:
                if taken.send.timestamp_ms == taken.high_ms == taken.low_ms:
                    claim.hold("both clocks showed the same millisecond", outcome="untouched")
                claim.hold(taken.skew, outcome="untouched")

    def _judge_dead_born(self, taken: Taken, arrival: Arrive) -> None:
        """TSP-009 on a delivered message or, for the timestamp alone, on its dead letter."""
        send = taken.send
        letter = arrival.dest == DEAD_LETTERS
        stamp_right = taken.is_now(arrival.timestamp_ms) if taken.acts() else arrival.timestamp_ms == send.timestamp_ms
        if stamp_right and (letter or arrival.expiration_ms == send.expiration_ms):
            self.claims["TSP-009"].hold(
                "it was dead-lettered" if letter else "it was delivered", outcome="expiration-kept"
            )
            return
        self.claims["TSP-009"].fail(
            f"{send.message} was sent with expiration {send.expiration_ms}, not later than its timestamp "
            f"{send.timestamp_ms}; it arrived with {_stamps(arrival)}; {taken.read()}",
            [send.seq, arrival.seq],
            outcome="altered",
        )

    # -- dead letters

    def _judge_letter(self, spec: TimeStampingSpec, taken: Taken, letter: Arrive) -> None:
        """TSP-008, and TSP-009 where only the dead letter shows it."""
        send = taken.send
        sent_ms = send.timestamp_ms
        acts = taken.acts()
        if sent_ms is not None and 0 < send.expiration_ms <= sent_ms and acts is not None:
            self._judge_dead_born(taken, letter)
        seen = self._seen.get(letter.message)
        if seen is not None:
            held = letter.timestamp_ms == seen.timestamp_ms
        else:
            either = sent_ms is not None and divided(spec, sent_ms, send.expiration_ms)
            kept = acts is not True or either
            held = (kept and letter.timestamp_ms == sent_ms) or (
                (acts is not False or either) and taken.is_now(letter.timestamp_ms)
            )
            held = held or (sent_ms is None and taken.is_now(letter.timestamp_ms))
        overridden = spec.zero_expiration_override_ms > 0 and letter.expiration_ms > 0
        if held and not overridden:
            self.claims["TSP-008"].hold(taken.skew, outcome="not-stamped")
            return
        expected = (
            f"{seen.timestamp_ms}" if seen is not None else f"{sent_ms} as sent or the broker's time; {taken.read()}"
        )
        self.claims["TSP-008"].fail(
            f"the dead letter of {send.message} has {_stamps(letter)}; on its queue the timestamp was {expected}",
            [send.seq, letter.seq],
            outcome="stamped-again",
        )


def _stamps(arrival: Arrive) -> str:
    return f"timestamp {arrival.timestamp_ms} and expiration {arrival.expiration_ms}"
