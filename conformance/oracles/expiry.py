"""Oracle: expiry by the broker's clock (EXP).

Abstract model. A message carries an absolute expiration, stamped by its producer's clock or, with the time-stamping
plug-in, by the broker's. It is dead while the broker's clock, in whole milliseconds, is greater than that. The broker
looks when the message arrives, before it assigns it to a consumer, and in a periodic sweep; a dead message goes to
the dead-letter queue, an assigned one is no longer looked at. A JMS consumer looks again, with *its* clock, and
discards.

Events: ``send`` (stamps, acceptance), ``subscribe`` ``leave`` ``closed`` ``ack`` ``nack`` (windows), ``arrive``
(deliveries and dead letters), ``consume`` ``discard``, ``counters`` (sweep), ``clock_sample`` and ``fault`` (clocks,
stalls), ``phase``. The instant at which a message was *assigned* is not observed: it lies between the latest of
{send, subscription, the acknowledgement that freed a slot, the departure of the consumer that had it before} and its
arrival. ``scene.py`` and ``fate.py`` hold these bounds.

Analyses (here unless another module is named):

1. EXP-001: dead on arrival for certain, then no consumer gets it. An absence, but one that every later look can only
   confirm; it counts once the run was drained.
2. EXP-002: without expiration, it is never a dead letter.
3. EXP-003: it is not found among dead letters, nor counted as expired (``sweeping.py``), nor passed over
   (``precedence.py``) before its expiration. The moment of death is not seen, that of finding is.
4. EXP-004: dead at every instant at which it can have been assigned, yet it arrived.
5. EXP-005, EXP-007, EXP-008: ``decision.py``.
6. EXP-006: the send of a message that was dead on arrival did not fail, unless living messages failed in the same way.
7. EXP-009, EXP-021: ``sweeping.py``.
8. EXP-010 (futureOnly): time from acceptance to assignment is at most the time to live plus the producer's lead, in
   true time, while the broker's clock is not stepped back.

An instance exists only where its premise is certain: a message that may or may not have been dead on arrival is no
instance of EXP-001. That keeps programs that aim at the very millisecond from drowning in doubt. Doubt remains where
a certain premise meets an undecidable conclusion, and where the broker's clock was never sampled.

Not checked. Delayed messages in 1, 4, 7 and 10: their life before release is the delay oracle's (DLY-006).
Transactions. Messages sent straight to the dead-letter queue. Dead letters that a nack explains. Counters of
advisories. Must change together: expiry.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_topic
from brokerproof.conformance.experiment.history import Arrive, ClockSample, Event, Fault, Header, Send
from brokerproof.conformance.oracles.decision import Decision, believes_client
from brokerproof.conformance.oracles.dial import NO_EVENT, NS_PER_MS, Dial
from brokerproof.conformance.oracles.fate import Fate, Mortality
from brokerproof.conformance.oracles.life import Life
from brokerproof.conformance.oracles.precedence import passed_over
from brokerproof.conformance.oracles.scene import KINDS, clients_may_have_discarded
from brokerproof.conformance.oracles.stage import SceneOracle
from brokerproof.conformance.oracles.sweeping import Sweeping, period_of

if TYPE_CHECKING:
    from brokerproof.conformance.oracles.wall import WallClocks

#: The worst rate error of a clock that elapsed time is compared with.
RATE_PPM = 200
#: Situations.
BORDER = "a message was delivered in the very millisecond of its expiration"
SWEPT = "a message without expiration waited for longer than a sweep's period"
JUMPS = {
    0: "",
    1: "the broker's clock stepped forward while a message was waiting",
    -1: "the broker's clock stepped back while a message was waiting",
}


class ExpiryOracle(SceneOracle):
    """See the module's header."""

    name = "expiry"
    requirements = (*(f"EXP-{number:03d}" for number in range(1, 11)), "EXP-021")
    kinds = (*KINDS, "clock_sample")
    looks = (ClockSample, Send, Arrive)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._samples: list[ClockSample] = []
        #: Some message may expire; some message is a dead letter.
        self._mortal = False
        self._letters = False
        #: The broker takes a client's word for it that a message has expired (generation classic-5.14).
        self._believes = True
        self._windows = True
        self._lateness_ns = 0
        #: Sends of dead messages that failed, and the refusals that living messages met.
        self._refused: list[Send] = []
        self._refusals: dict[str, bool] = {}

    def start(self, header: Header) -> None:
        super().start(header)
        declared = header.declared
        spec = declared.timestamping
        self._mortal = spec is not None and spec.zero_expiration_override_ms > 0
        self._believes = believes_client(declared)
        self._windows = "prefetch" in header.capabilities
        self._lateness_ns = declared.lateness_ms * NS_PER_MS

    def feed(self, event: Event) -> None:
        if isinstance(event, ClockSample):
            self._samples.append(event)
            return
        super().feed(event)
        if isinstance(event, Send):
            if event.mortal():
                self._mortal = True
        elif isinstance(event, Arrive) and event.dest == DEAD_LETTERS:
            self._letters = True

    def conclude(self) -> None:
        if not self._mortal and not self._letters:
            self._judge_undying()
            return
        scene = self._stage.scene()
        dials = self._make_dials()
        dial = dials.get(self._header.broker_host)
        if dial is None:
            self._clock_unknown()
            return
        self._scene = scene
        self._mortality = Mortality(dial, self._header.declared.timestamping)
        decision = Decision(self.claims, scene, self._mortality, dials, self._header)
        sweeping = Sweeping(self.claims, scene, self._mortality, self._header)
        for dest, lives in scene.dests.items():
            if dest == DEAD_LETTERS:
                continue
            for life in lives:
                if life.send.result == "fail":
                    self._note_refusal(life)
                    continue
                fate = self._mortality.fate_of(life)
                if fate is None:
                    continue
                sweeping.add(fate)
                if fate.mortal:
                    self._judge(fate)
                    decision.judge(fate)
                else:
                    self._judge_immortal(fate)
        self._judge_refused()
        sweeping.judge()

    def _make_dials(self) -> dict[str, Dial]:
        """A dial per host whose clock was sampled."""
        dials: dict[str, Dial] = {}
        jumps = [event for event in self._stage.events if isinstance(event, Fault) and event.fault == "clock"]
        at = 0
        for sample in self._samples:
            while at < len(jumps) and jumps[at].seq < sample.seq:
                self._dial_of(dials, jumps[at].target or "").fault(jumps[at])
                at += 1
            self._dial_of(dials, sample.host).sample(sample)
        for jump in jumps[at:]:
            self._dial_of(dials, jump.target or "").fault(jump)
        return {host: dial for host, dial in dials.items() if dial.known}

    def _dial_of(self, dials: dict[str, Dial], host: str) -> Dial:
        dial = dials.get(host)
        if dial is None:
            dial = dials[host] = Dial(self.clocks, host)
        return dial

    def _clock_unknown(self) -> None:
        """Without samples of the broker's clock nothing about expiry can be said."""
        first = next((event for event in self._stage.events if isinstance(event, Send) and event.mortal()), None)
        if first is None:
            return
        host = self._header.broker_host
        text = f"the clock of broker host {host!r} was never sampled; {first.message} has an expiration"
        for requirement in ("EXP-001", "EXP-003", "EXP-004", "EXP-007"):
            self.claims[requirement].doubt(text, [first.seq], 0)

    # -- no expiration

    def _judge_undying(self) -> None:
        """EXP-002 in the common case of a run without expirations and without dead letters, which needs no scene."""
        claim = self.claims["EXP-002"]
        sends: dict[str, Send] = {}
        for event in self._stage.events:
            if isinstance(event, Send):
                sends[event.message] = event
            elif isinstance(event, Arrive):
                send = sends.get(event.message)
                if send is not None:
                    if self._outlived_sweep(send, event):
                        claim.hold(SWEPT, outcome="delivered")
                        return
                    if not claim.exercised:
                        claim.hold(outcome="delivered")

    def _outlived_sweep(self, send: Send, arrival: Arrive) -> bool:
        period_ms = period_of(self._header.declared, send.dest)
        return period_ms > 0 and arrival.t0 - send.t1 > period_ms * NS_PER_MS

    def _given_up(self, fate: Fate) -> bool:
        """Whether it may be a dead letter because somebody gave it up, or called it expired and was believed."""
        # A durable subscriber's word is always believed: nobody else could be given its copy.
        believed = self._believes or is_topic(fate.life.send.dest)
        return fate.given_up() or (believed and clients_may_have_discarded(self._scene, fate.life))

    def _judge_immortal(self, fate: Fate) -> None:
        """EXP-002."""
        life = fate.life
        claim = self.claims["EXP-002"]
        if not life.letters:
            if life.arrivals:
                swept = SWEPT in claim.situations or self._outlived_sweep(life.send, life.arrivals[0])
                claim.hold(SWEPT if swept else "", outcome="delivered")
            return
        if self._given_up(fate):
            return
        letter = life.letters[0]
        claim.fail(
            f"{life.send.message} was sent to {life.send.dest} without expiration ({life.send.expiration_ms}) and "
            "never "
            f"rejected; event {letter.seq} finds it among the dead letters",
            [life.send.seq, letter.seq],
            outcome="dead-lettered",
        )

    # -- with an expiration

    def _judge(self, fate: Fate) -> None:
        life = fate.life
        delayed = life.send.delay_ms > 0 or life.send.deliver_at_ms is not None
        self._judge_early(fate)
        if delayed:
            return
        if fate.dead_at_first:
            self._judge_dead_arrival(fate)
            if life.send.result == "ok":
                self.claims["EXP-006"].hold(fate.skew, outcome="accepted")
            return
        for arrival in life.arrivals:
            self._judge_assignment(fate, arrival)
        if not life.arrivals:
            self._judge_left_alone(fate)
        spec = self._mortality.spec
        if spec is not None and spec.future_only and life.send.result == "ok":
            self._judge_life_span(fate)

    def _judge_dead_arrival(self, fate: Fate) -> None:
        """EXP-001."""
        life = fate.life
        send = life.send
        if life.arrivals:
            arrival = life.arrivals[0]
            low_ns, _ = self._mortality.dial.bounds_ns(send.t0, fate.accepted.t1, send.seq, fate.accepted.seq)
            self.claims["EXP-001"].fail(
                f"{send.message} had expiration {fate.low_ms}; when the broker took it over its clock read "
                f"{low_ns // NS_PER_MS} or "
                f"more, {(low_ns - fate.low_ns) // NS_PER_MS + 1} ms too late; consumer {arrival.consumer} got it",
                [send.seq, arrival.seq],
                outcome="delivered",
                slack_ns=fate.high_ns - 1 - low_ns,
            )
        elif self._scene.drain_ns is not None:
            self.claims["EXP-001"].hold(fate.skew, outcome="not-delivered")

    def _judge_early(self, fate: Fate) -> None:
        """EXP-003, by what was found."""
        life = fate.life
        claim = self.claims["EXP-003"]
        send = life.send
        for arrival in life.arrivals:
            low_ms, high_ms = self._mortality.dial.bounds_ms(arrival.t0, arrival.t1, arrival.seq, arrival.seq)
            if low_ms == high_ms == fate.low_ms and fate.low_ns == fate.high_ns:
                claim.hold(BORDER, slack_ns=0, outcome="alive-till-then")
        if not life.letters or self._given_up(fate):
            return
        letter = life.letters[0]
        ahead = passed_over(self._scene, self._mortality, fate)
        if ahead is not None:
            claim.fail(
                f"{send.message} with expiration {fate.low_ms} was passed over: {ahead.message}, sent after it, "
                f"reached {ahead.consumer}, the only consumer, while it lived by the broker's clock; "
                f"it is a dead letter (event {letter.seq})",
                [send.seq, ahead.seq, letter.seq],
                outcome="too-early",
            )
            return
        dial = self._mortality.dial
        high_ns = dial.bounds_ns(send.t0, letter.t1, send.seq, letter.seq)[1]
        found_ns = dial.bounds_ns(letter.t1, letter.t1, letter.seq, letter.seq)[0]
        jump_ms = dial.jump_between(send.t0, letter.t1)
        if high_ns < fate.low_ns:
            claim.fail(
                f"{send.message} with expiration {fate.low_ms} was found among the dead letters (event "
                f"{letter.seq}); from its "
                f"send on the broker's clock had not read more than {high_ns // NS_PER_MS}",
                [send.seq, letter.seq],
                outcome="too-early",
                slack_ns=high_ns - fate.low_ns,
            )
        elif found_ns >= fate.high_ns or (jump_ms < 0 and high_ns >= fate.high_ns):
            situation = JUMPS[(jump_ms > 0) - (jump_ms < 0)] or fate.skew
            claim.hold(situation, slack_ns=high_ns - fate.high_ns, outcome="alive-till-then")
        elif fate.low_ns == fate.high_ns:
            claim.doubt(
                f"{send.message} was found among the dead letters about when it expired by the broker's clock",
                [send.seq, letter.seq],
                fate.high_ns - found_ns,
            )

    def _judge_assignment(self, fate: Fate, arrival: Arrive) -> None:
        """EXP-004."""
        life = fate.life
        claim = self.claims["EXP-004"]
        send = life.send
        mortality = self._mortality
        from_ns = self._scene.assigned_ns(life, arrival, windows=self._windows)
        low_ns, _ = mortality.dial.bounds_ns(from_ns, arrival.t1, NO_EVENT, arrival.seq)
        if low_ns >= fate.high_ns:
            claim.fail(
                f"{send.message} had expiration {fate.low_ms}; consumer {arrival.consumer} cannot have been given it "
                "before "
                f"{from_ns / NS_PER_MS:.3f} ms, when the broker's clock read {low_ns // NS_PER_MS} or more; it "
                "arrived at "
                f"{arrival.t1 / NS_PER_MS:.3f} ms",
                [send.seq, arrival.seq],
                outcome="dispatched-dead",
                slack_ns=fate.high_ns - 1 - low_ns,
            )
        elif mortality.alive(fate, from_ns, arrival.t1, NO_EVENT, arrival.seq):
            claim.hold(slack_ns=fate.low_ns - low_ns, outcome="alive-or-not-dispatched")
        elif mortality.dead(fate, arrival.t0 - self._lateness_ns, arrival.t1) and not self._scene.stalled(
            arrival.host, from_ns, arrival.t1
        ):
            claim.doubt(
                f"{send.message} had been dead for {self._lateness_ns // NS_PER_MS} ms when it reached "
                f"{arrival.consumer}, over a "
                "link that was not stalled; it may have been assigned before",
                [send.seq, arrival.seq],
                arrival.t1 - from_ns,
            )

    def _judge_left_alone(self, fate: Fate) -> None:
        """EXP-004, the good end: it died while it waited, consumers came later, and none got it."""
        life = fate.life
        drain_ns, end_ns = self._scene.drain_ns, self._scene.end_ns
        if drain_ns is None or end_ns is None or life.discards or not self._mortality.dead(fate, drain_ns, end_ns):
            return
        there = any(visit.subscribe.t0 < drain_ns for visit in self._scene.visits.get(life.send.dest, ()))
        situation = (
            "a consumer's window was full, or it came late"
            if there
            else "nobody was subscribed while the message lived"
        )
        self.claims["EXP-004"].hold(situation, outcome="alive-or-not-dispatched")

    def _judge_life_span(self, fate: Fate) -> None:
        """EXP-010."""
        life = fate.life
        send = life.send
        stamp_ms = send.timestamp_ms
        if stamp_ms is None or not 0 < stamp_ms < send.expiration_ms:
            return
        claim = self.claims["EXP-010"]
        low_ms, _ = self._mortality.dial.bounds_ms(send.t0, send.t1, send.seq, send.seq)
        ttl_ms = send.expiration_ms - stamp_ms
        lead_ms = max(0, stamp_ms - low_ms)
        limit_ns = (ttl_ms + lead_ms + 1) * NS_PER_MS
        for arrival in life.arrivals:
            if self._mortality.dial.jump_between(send.t0, arrival.t1) < 0:
                continue
            from_ns = self._scene.assigned_ns(life, arrival, windows=self._windows)
            least_ns = from_ns - send.t1
            text = (
                f"futureOnly: {send.message} may live for its {ttl_ms} ms and the producer's lead of {lead_ms} ms; "
                f"{arrival.consumer} was given it at least {least_ns / NS_PER_MS:.3f} ms after the broker had "
                "accepted it"
            )
            if least_ns - least_ns * RATE_PPM // 1_000_000 >= limit_ns:
                claim.fail(text, [send.seq, arrival.seq], outcome="longer", slack_ns=limit_ns - least_ns)
            elif arrival.t1 - send.t0 < limit_ns:
                claim.hold(fate.skew, slack_ns=limit_ns - (arrival.t1 - send.t0), outcome="within")
            elif arrival.t0 - send.t1 - self._lateness_ns >= limit_ns and not self._scene.stalled(
                arrival.host, from_ns, arrival.t1
            ):
                claim.doubt(text, [send.seq, arrival.seq], arrival.t1 - from_ns)

    def _note_refusal(self, life: Life) -> None:
        """EXP-006: a send that failed; whether because of expiry is decided at the end."""
        send = life.send
        if send.mortal() and self._mortality.sent(life, send).dead_at_first:
            self._refused.append(send)
        else:
            self._refusals[send.refusal or ""] = True

    def _judge_refused(self) -> None:
        """EXP-006. A refusal that living messages met too is about something else; one that nobody explains is in
        doubt.
        """
        claim = self.claims["EXP-006"]
        for send in self._refused:
            refusal = send.refusal or ""
            text = (
                f"{send.message} had expired by the broker's clock (expiration {send.expiration_ms}), and its send "
                "failed: "
                f"{refusal!r}"
            )
            if "expir" in refusal.lower():
                claim.fail(text, [send.seq], outcome="failed")
            elif refusal not in self._refusals:
                claim.doubt(f"{text}; the refusal does not say why", [send.seq], 0)
