"""Oracle: delivery delay (DLY).

Abstract model. A message sent with delay D is taken over now and becomes visible when D has elapsed, on elapsed
(true) time; then it is an ordinary message at the end of the queue. An absolute delivery time is turned into a
remaining delay by the broker's clock at acceptance. While it waits nobody sees it: it blocks nothing, takes no place
in any window, and its time to live runs.

Events: ``send`` (delay, stamps, when it was taken over), ``arrive``, ``subscribe`` ``leave`` ``ack`` (who waited,
with what window: ``promptness.py``), clock samples and faults, stalls, ``phase``. A message is accepted at some
instant of ``[send.t0, send.t1]``, so it is due in ``[send.t0 + D, send.t1 + D]``.

Analyses:

1. DLY-001: no arrival before D has elapsed since its producer began to send. JMS counts the delay from the send; a
   broker that counts from acceptance is later by the way there, which only makes it safer. Measured from ``send.t0``
   the claim is decided by two readings of one clock, however long the send took. Where the send took so long (more
   than the declared lateness) that counting from acceptance would change the answer, it is in doubt. To show a defect
   of 1 ms the way there and back must take less than 1 ms: latency 0 or 10 us in the simulated world.
2. DLY-002: it arrives within the declared lateness after it was due while somebody waited for it and no clock of the
   broker's jumped meanwhile.
3. DLY-003: it does not arrive before the broker's wall clock has advanced by D since acceptance. Acceptable, not
   ideal, if that clock was stepped back meanwhile or runs slow.
4. DLY-004: a message without delay arrives within the lateness although a delayed one, sent before it, still waits.
5. DLY-005: after the drain a delayed message has been delivered or is a dead letter (or expired without copy).
6. DLY-006: nobody gets it after its time to live, counted from the send, ended while it still waited; and its
   expiration is not moved.
7. DLY-007: a delayed message arrives in time although one with a later due time was sent before it.
8. DLY-008: the broker's clock jumped while it waited, and it was neither early nor late.
9. DLY-009: a message arrives in time although as many delayed ones wait as all consumers' windows together could
   hold.

Not checked. Order of equal due times and browsers: ``waiting.py``. Transactions. Restart. Lateness where nobody
waited. Topics in 5: who was entitled to a copy is the affair of the general requirements. Must change together:
``promptness.py``, delay.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_topic
from brokerproof.conformance.experiment.history import Arrive, ClockSample, Event, Fault, Header, Send
from brokerproof.conformance.oracles.base import Claim
from brokerproof.conformance.oracles.dial import NO_EVENT, NS_PER_MS, Dial
from brokerproof.conformance.oracles.fate import Fate, Mortality
from brokerproof.conformance.oracles.life import NEVER_NS, Life
from brokerproof.conformance.oracles.promptness import Promptness
from brokerproof.conformance.oracles.scene import KINDS
from brokerproof.conformance.oracles.stage import SceneOracle
from brokerproof.conformance.oracles.strategies import gets_letter

if TYPE_CHECKING:
    from brokerproof.conformance.oracles.life import Visit
    from brokerproof.conformance.oracles.wall import WallClocks

#: The worst rate error of a wall clock.
RATE_PPM = 200
#: How many of the delayed messages sent before are looked at for DLY-009.
LOOK_BACK = 64

FORWARD = "the broker's clock stepped forward while a message was waiting"
IDLE = "a consumer was idle at the due time"
BACK = "the broker's clock stepped back while a message was waiting"


class Wait:
    """One message of the run with its due time, in true nanoseconds; without delay it is due at acceptance."""

    __slots__ = ("delayed", "due_high", "due_low", "fate", "jump_ms", "life")

    def __init__(self, life: Life, fate: Fate, due_low: int, due_high: int, delayed: bool) -> None:
        self.life = life
        self.fate = fate
        self.due_low = due_low
        self.due_high = due_high
        self.delayed = delayed
        #: The broker's clock jumped between send and due time: how far; 0 if not.
        self.jump_ms = 0


class DelayOracle(SceneOracle):
    """See the module's header."""

    name = "delay"
    requirements = tuple(f"DLY-{number:03d}" for number in range(1, 10))
    kinds = (*KINDS, "clock_sample")
    looks = (ClockSample, Send, Fault)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._delayed = False
        self._dial = Dial(clocks, "")
        self._jumps: list[Fault] = []

    def start(self, header: Header) -> None:
        super().start(header)
        self._dial = Dial(self.clocks, header.broker_host)

    def feed(self, event: Event) -> None:
        if isinstance(event, ClockSample):
            if event.host == self._dial.host:
                self._dial.sample(event)
            return
        super().feed(event)
        if isinstance(event, Send):
            if event.delay_ms or event.deliver_at_ms is not None:
                self._delayed = True
        elif isinstance(event, Fault) and event.fault == "clock":
            self._jumps.append(event)
            if event.target == self._dial.host:
                self._dial.fault(event)

    def conclude(self) -> None:
        if not self._delayed or not self._header.declared.delay_support:
            return  # a broker that knows no delays must refuse them (DLY-031)
        scene = self._stage.scene()
        self._scene = scene
        self._mortality = Mortality(self._dial, self._header.declared.timestamping)
        self._promptness = Promptness(scene, self._header.declared.lateness_ms * NS_PER_MS)
        self._windows = "prefetch" in self._header.capabilities
        for dest, lives in scene.dests.items():
            if dest != DEAD_LETTERS:
                self._judge_destination(lives)

    # -- one destination

    def _judge_destination(self, lives: list[Life]) -> None:
        waits: list[Wait] = []
        #: The delayed ones so far.
        ahead: list[Wait] = []
        for life in lives:
            wait = self._wait_of(life)
            if wait is None:
                continue
            waits.append(wait)
            if wait.delayed:
                self._judge_early(wait)
                self._judge_broker_clock(wait)
                self._judge_expiry(wait)
                self._judge_loss(wait)
            if life.send.result == "ok":
                self._judge_lateness(wait, ahead)
                if wait.delayed:
                    ahead.append(wait)

    def _wait_of(self, life: Life) -> Wait | None:
        """None if it is not known that the broker took it over, or when an absolute delivery time cannot be related
        to its clock.
        """
        send = life.send
        accepted = life.accepted()
        if accepted is None or (send.deliver_at_ms is not None and not self._dial.known):
            return None
        if not self._dial.known and (send.mortal() or self._mortality.spec is not None):
            return None
        fate = self._mortality.sent(life, accepted)
        low_ms, high_ms = send.delay_ms, send.delay_ms
        if send.deliver_at_ms is not None and not send.delay_ms:
            wall_low, wall_high = self._dial.bounds_ms(send.t0, accepted.t1, send.seq, accepted.seq)
            low_ms, high_ms = max(0, send.deliver_at_ms - wall_high), max(0, send.deliver_at_ms - wall_low)
        wait = Wait(life, fate, send.t0 + low_ms * NS_PER_MS, accepted.t1 + high_ms * NS_PER_MS, low_ms > 0)
        wait.jump_ms = self._dial.jump_between(send.t0, wait.due_high)
        return wait

    # -- too early

    def _judge_early(self, wait: Wait) -> None:
        """DLY-001, and the early side of DLY-008."""
        life = wait.life
        send = life.send
        if not life.arrivals:
            return
        arrival = life.arrivals[0]
        claims = [self.claims["DLY-001"]]
        if wait.jump_ms:
            claims.append(self.claims["DLY-008"])
        waited_ns = arrival.t1 - send.t0
        text = (
            f"{send.message} was sent with a delay of {_asked(send)}; it arrived at {arrival.consumer} "
            f"{waited_ns / NS_PER_MS:.3f} ms after its producer had begun to send it"
        )
        for claim in claims:
            if arrival.t1 < wait.due_low:
                early_ms = (wait.due_low - arrival.t1) / NS_PER_MS
                claim.fail(
                    f"{text}, {early_ms:.3f} ms early{self._jumped(wait)}",
                    [send.seq, arrival.seq],
                    outcome="early",
                    slack_ns=arrival.t1 - wait.due_low,
                )
            elif arrival.t0 < wait.due_low:
                claim.doubt(text, [send.seq, arrival.seq], wait.due_low - arrival.t0)
            elif send.result == "ok" and wait.due_high - arrival.t0 > self._promptness.lateness_ns:
                claim.doubt(
                    f"{text}; the broker may have taken it over much later",
                    [send.seq, arrival.seq],
                    wait.due_high - arrival.t0,
                )
            else:
                self._hold_early(claim, wait, arrival)

    def _hold_early(self, claim: Claim, wait: Wait, arrival: Arrive) -> None:
        slack_ns = arrival.t0 - wait.due_low
        outcome = "on-or-after" if claim.requirement == "DLY-001" else "undisturbed"
        send = wait.life.send
        claim.hold(self._fate_of_clocks(wait), slack_ns=slack_ns, outcome=outcome)
        if claim.requirement == "DLY-001":
            if any(send.t0 <= jump.t1 <= wait.due_high and (jump.jump_ms or 0) > 0 for jump in self._jumps):
                claim.hold("a clock stepped forward while a message was waiting", outcome=outcome)
            visit = self._scene.visit_of(arrival.consumer)
            if visit is not None:
                idle = visit.subscribe.t1 <= wait.due_low
                claim.hold(
                    "a consumer was attached at the due time" if idle else "a consumer came after the due time",
                    outcome=outcome,
                )

    def _fate_of_clocks(self, wait: Wait) -> str:
        if wait.jump_ms:
            return FORWARD if wait.jump_ms > 0 else BACK
        return wait.fate.skew

    def _jumped(self, wait: Wait) -> str:
        return f" (the broker's clock jumped by {wait.jump_ms} ms meanwhile)" if wait.jump_ms else ""

    def _judge_broker_clock(self, wait: Wait) -> None:
        """DLY-003."""
        life = wait.life
        send = life.send
        if not life.arrivals or not self._dial.known:
            return
        arrival = life.arrivals[0]
        claim = self.claims["DLY-003"]
        accepted = wait.fate.accepted
        begin_low, begin_high = self._dial.bounds_ns(send.t0, accepted.t1, send.seq, accepted.seq)
        end_low, end_high = self._dial.bounds_ns(arrival.t0, arrival.t1, arrival.seq, arrival.seq)
        if send.deliver_at_ms is not None and not send.delay_ms:
            least_ns = most_ns = send.deliver_at_ms * NS_PER_MS
        else:
            least_ns, most_ns = begin_low + send.delay_ms * NS_PER_MS, begin_high + send.delay_ms * NS_PER_MS
        if end_high >= least_ns:
            if send.result == "ok" and most_ns - end_low > self._promptness.lateness_ns and not wait.jump_ms:
                claim.doubt(
                    f"when {send.message} arrived, the broker's clock may have been short of its delay",
                    [send.seq, arrival.seq],
                    most_ns - end_low,
                )
            else:
                claim.hold(self._fate_of_clocks(wait), slack_ns=end_high - least_ns, outcome="on-or-after")
            return
        elapsed_ns = arrival.t1 - send.t0
        if self._dial.jump_between(send.t0, arrival.t1) < 0:
            claim.hold(BACK, outcome="early-by-a-clock-that-went-back", grade="acceptable")
        elif least_ns - end_high <= elapsed_ns * RATE_PPM // 1_000_000 and arrival.t1 >= wait.due_low:
            claim.hold("the broker's clock runs slow", outcome="early-by-a-slow-clock", grade="acceptable")
        else:
            claim.fail(
                f"{send.message} was sent with a delay of {_asked(send)}; when it arrived, the broker's clock had "
                f"advanced by {(end_high - begin_low) / NS_PER_MS:.3f} ms at most",
                [send.seq, arrival.seq],
                outcome="early",
                slack_ns=end_high - least_ns,
            )

    # -- too late

    def _judge_lateness(self, wait: Wait, ahead: list[Wait]) -> None:
        """DLY-002, DLY-004, DLY-007, DLY-008, DLY-009."""
        send = wait.life.send
        until_ns = wait.due_high + self._promptness.lateness_ns
        longer = [other for other in ahead[-LOOK_BACK:] if other.due_low > until_ns and other.life.send.t1 <= send.t0]
        if not wait.delayed and not longer:
            return
        if not self._mortality.alive(wait.fate, send.t0, until_ns, send.seq):
            return
        waiting = self._promptness.waiting(wait.life, wait.due_low, wait.due_high)
        if not waiting:
            return
        if wait.delayed:
            self._judge_arrival(self.claims["DLY-008" if wait.jump_ms else "DLY-002"], wait, waiting, None)
        if longer and not wait.jump_ms:
            self._judge_arrival(self.claims["DLY-007" if wait.delayed else "DLY-004"], wait, waiting, longer[-1])
            slots = 0
            for visit in self._scene.visits.get(send.dest, ()):
                if visit.gone_ns >= send.t0 and visit.subscribe.t0 <= until_ns:
                    slots += visit.subscribe.prefetch
            if len(longer) >= slots:
                self._judge_arrival(self.claims["DLY-009"], wait, waiting, longer[-1])

    def _judge_arrival(self, claim: Claim, wait: Wait, waiting: list[Visit], longer: Wait | None) -> None:
        """``longer``: a delayed message that was sent before and is due later; it must make no difference."""
        low_ns, high_ns = self._promptness.arrived_ns(wait.life, waiting)
        until_ns = wait.due_high + self._promptness.lateness_ns
        if high_ns <= until_ns:
            situation = self._fate_of_clocks(wait) if wait.jump_ms else IDLE
            claim.hold(situation, slack_ns=until_ns - high_ns, outcome=GOOD[claim.requirement])
            return
        send = wait.life.send
        witness = [send.seq, *(arrival.seq for arrival in wait.life.arrivals[:1])]
        behind = ""
        if longer is not None:
            witness.insert(0, longer.life.send.seq)
            behind = f", sent after {longer.life.send.message}, which waits longer,"
        when = "did not arrive"
        if low_ns < NEVER_NS:
            when = f"arrived {(low_ns - wait.due_high) / NS_PER_MS:.3f} ms after it was due"
        names = ", ".join(visit.subscribe.consumer for visit in waiting)
        text = (
            f"{send.message} (delay {_asked(send)}){behind} {when}, while {names} waited with an open "
            f"window{self._jumped(wait)}; "
            f"{self._promptness.lateness_ns // NS_PER_MS} ms are allowed"
        )
        if low_ns > until_ns:
            claim.fail(text, witness, outcome="late", slack_ns=until_ns - low_ns if low_ns < NEVER_NS else None)
        else:
            claim.doubt(text, witness, high_ns - until_ns)

    # -- never

    def _judge_loss(self, wait: Wait) -> None:
        """DLY-005."""
        life = wait.life
        send = life.send
        scene = self._scene
        claim = self.claims["DLY-005"]
        if is_topic(send.dest):
            return
        if life.arrivals or life.letters:
            claim.hold("it was delivered" if life.arrivals else "it died while it waited", outcome="accounted-for")
            return
        end_ns = scene.end_ns
        if (
            send.result != "ok"
            or not scene.complete
            or end_ns is None
            or wait.due_high + self._promptness.lateness_ns > end_ns
        ):
            return
        kept = gets_letter(self._header.declared, send.dest, send.persistent, expired=True)
        if not kept and not self._mortality.alive(wait.fate, send.t0, end_ns, send.seq):
            return
        if any(visit.settles_unseen and not scene.left_in_peace(visit) for visit in scene.visits.get(send.dest, ())):
            return  # an auto consumer may have been written it without seeing it
        claim.fail(
            f"{send.message} was sent with a delay of {_asked(send)} and was due "
            f"{(end_ns - wait.due_high) / NS_PER_MS:.0f} ms before the end of the drain; it was neither delivered "
            "nor dead-lettered",
            [send.seq],
            outcome="lost",
        )

    def _judge_expiry(self, wait: Wait) -> None:
        """DLY-006."""
        life = wait.life
        send = life.send
        fate = wait.fate
        if not fate.mortal:
            return
        claim = self.claims["DLY-006"]
        plugin = self._mortality.spec is not None
        for arrival in life.arrivals:
            from_ns = max(wait.due_low, self._scene.assigned_ns(life, arrival, windows=self._windows))
            low_ns, _ = self._dial.bounds_ns(min(from_ns, arrival.t1), arrival.t1, NO_EVENT, arrival.seq)
            if not plugin and send.expiration_ms > 0 and arrival.expiration_ms != send.expiration_ms:
                claim.fail(
                    f"{send.message} was sent with a delay of {_asked(send)} and expiration {send.expiration_ms}; it "
                    f"arrived with expiration {arrival.expiration_ms}: its time to live was "
                    "counted anew",
                    [send.seq, arrival.seq],
                    outcome="restarted",
                )
            elif low_ns >= fate.high_ns:
                claim.fail(
                    f"{send.message} was sent with a delay of {_asked(send)} and had expiration {fate.low_ms}; it "
                    f"was released at {from_ns / NS_PER_MS:.3f} ms or later, when the broker's "
                    f"clock read {low_ns // NS_PER_MS} or more, and {arrival.consumer} got it",
                    [send.seq, arrival.seq],
                    outcome="delivered-dead",
                    slack_ns=fate.high_ns - 1 - low_ns,
                )
            elif self._mortality.alive(fate, from_ns, arrival.t1, NO_EVENT, arrival.seq):
                claim.hold(
                    "it lived until it was delivered", slack_ns=fate.low_ns - low_ns, outcome="counted-from-send"
                )
        end_ns = self._scene.end_ns
        if life.arrivals or end_ns is None or self._scene.drain_ns is None or wait.due_high > end_ns:
            return
        if self._mortality.dead(fate, wait.due_low, end_ns):
            claim.hold("the time to live ended before the delay", outcome="counted-from-send")


#: Outcome of each claim about lateness when it holds.
GOOD = {
    "DLY-002": "on-time",
    "DLY-004": "not-held-up",
    "DLY-007": "not-held-up",
    "DLY-008": "undisturbed",
    "DLY-009": "no-slot-taken",
}


def _asked(send: Send) -> str:
    """The delay that a message was sent with, for texts."""
    if send.deliver_at_ms is not None and not send.delay_ms:
        return f"delivery time {send.deliver_at_ms}"
    return f"{send.delay_ms} ms"
