"""Oracle: the ends of a life that the tables of ``expiry.py`` do not show (EXP-011, -012, -024, -025, TSP-014).

Abstract model as in ``expiry.py``. In addition: a message with a time to live *by the broker's clock*
(``send.life_ms``) dies when that clock has advanced by as much since acceptance; its consumers are told no expiration.

Analyses:

1. EXP-011: a message that was dead for certain at every instant of its acknowledgement, and whose acknowledgement the
   broker confirmed, was consumed: it is no dead letter, and nobody gets it again.
2. EXP-012: a message that died for certain before the consumer that held it can have lost it reaches nobody else.
3. EXP-024: with a relative life, no consumer is given it after its end, and it is no dead letter before.
4. EXP-025: a message with a relative life arrives without an expiration, and no library discards it as expired.
5. TSP-014: a message that its stamps call dead when it comes, but whose time to live is positive, lives on: it is
   delivered, and no dead letter while it lives by its new stamps.

Not checked: topics, transactions, consumers whose library settles by itself (1), what the lens clouds. Must change
together: expiry.toml, timestamping.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_topic
from brokerproof.conformance.experiment.history import Arrive, ClockSample, Event, Fault, Header, Send
from brokerproof.conformance.oracles.decision import may_be_swallowed
from brokerproof.conformance.oracles.dial import NO_EVENT, NS_PER_MS, Dial
from brokerproof.conformance.oracles.fate import Fate, Mortality
from brokerproof.conformance.oracles.life import Life
from brokerproof.conformance.oracles.scene import KINDS, clients_may_have_discarded
from brokerproof.conformance.oracles.stage import SceneOracle

if TYPE_CHECKING:
    from brokerproof.conformance.oracles.wall import WallClocks

#: A difference between clocks that shows that a consumer's clock was another one.
SKEW_MS = 50
AHEAD = "the consumer's clock was ahead of the broker's"
BEHIND = "the consumer's clock was behind the broker's"
AGREED = "the consumer's and the broker's clocks agreed"


class LifespanOracle(SceneOracle):
    """See the module's header."""

    name = "lifespan"
    requirements = ("EXP-011", "EXP-012", "EXP-024", "EXP-025", "TSP-014")
    kinds = (*KINDS, "clock_sample")
    looks = (ClockSample, Send, Fault)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._dial = Dial(clocks, "")
        self._mortal = False
        self._windows = True

    def start(self, header: Header) -> None:
        super().start(header)
        self._dial = Dial(self.clocks, header.broker_host)
        self._windows = "prefetch" in header.capabilities

    def feed(self, event: Event) -> None:
        if isinstance(event, ClockSample):
            if event.host == self._dial.host:
                self._dial.sample(event)
            return
        super().feed(event)
        if isinstance(event, Send):
            self._mortal = self._mortal or event.mortal()
        elif isinstance(event, Fault) and event.fault == "clock" and event.target == self._dial.host:
            self._dial.fault(event)

    def conclude(self) -> None:
        if not self._mortal or not self._dial.known:
            return
        scene = self._stage.scene()
        self._scene = scene
        self._mortality = Mortality(self._dial, self._header.declared.timestamping)
        for dest, lives in scene.dests.items():
            if dest == DEAD_LETTERS or is_topic(dest):
                continue
            for life in lives:
                send = life.send
                fate = self._mortality.fate_of(life) if send.result != "fail" and send.tx is None else None
                if fate is not None and fate.mortal:
                    self._judge(fate)

    def _judge(self, fate: Fate) -> None:
        self._judge_late_ack(fate)
        self._judge_return(fate)
        if fate.life.send.life_ms > 0:
            self._judge_relative(fate)
            self._judge_shown(fate)
        elif not fate.life.send.delay_ms and fate.life.send.deliver_at_ms is None:
            self._judge_rescue(fate)

    # -- in flight

    def _judge_late_ack(self, fate: Fate) -> None:
        """EXP-011."""
        life = fate.life
        if life.discards or fate.given_up():
            return
        for ack in life.acks:
            if ack.result != "ok" or ack.tx is not None or ack.mode == "auto":
                continue
            if not self._mortality.dead(fate, ack.t0, ack.t1, ack.seq, ack.seq):
                continue
            claim = self.claims["EXP-011"]
            text = (
                f"{life.send.message} (expiration {fate.low_ms}) was in flight to {ack.consumer}, which "
                "acknowledged it when it was dead by the broker's clock; "
            )
            again = next((arrival for arrival in life.arrivals if arrival.t0 > ack.t1), None)
            if again is not None:
                claim.fail(
                    f"{text}{again.consumer} got it afterwards", [life.send.seq, ack.seq, again.seq], outcome="again"
                )
            elif life.letters and not clients_may_have_discarded(self._scene, life):
                claim.fail(
                    f"{text}it is a dead letter (event {life.letters[0].seq})",
                    [life.send.seq, ack.seq, life.letters[0].seq],
                    outcome="dead-lettered",
                )
            elif not life.letters and self._scene.drain_ns is not None:
                claim.hold("acknowledged after its expiration", outcome="consumed")
            return

    def _judge_return(self, fate: Fate) -> None:
        """EXP-012."""
        life = fate.life
        scene = self._scene
        end_ns = scene.end_ns
        if not life.arrivals or life.acks or life.nacks or life.discards or end_ns is None:
            return
        first = life.arrivals[0]
        visit = scene.visit_of(first.consumer)
        if visit is None or visit.uncertain or visit.leave is None or visit.settles_unseen:
            return
        if scene.drain_ns is None or visit.leaving_ns >= scene.drain_ns:
            return
        if visit.leaving_ns < first.t1 or not self._mortality.dead(fate, visit.leaving_ns, end_ns):
            return
        claim = self.claims["EXP-012"]
        later = next((arrival for arrival in life.arrivals if arrival.consumer != first.consumer), None)
        if later is not None:
            low_ns, _ = self._dial.bounds_ns(visit.leaving_ns, later.t1, NO_EVENT, later.seq)
            claim.fail(
                f"{life.send.message} (expiration {fate.low_ms}) was dead when {first.consumer}, which held it, left; "
                f"{later.consumer} got it, when the broker's clock read {low_ns // NS_PER_MS} or more",
                [life.send.seq, first.seq, visit.leave.seq, later.seq],
                outcome="handed-on",
                slack_ns=fate.high_ns - 1 - low_ns,
            )
        elif scene.complete:
            claim.hold(f"its consumer left: {visit.leave.how}", outcome="to-nobody")

    # -- by the broker's clock alone

    def _judge_relative(self, fate: Fate) -> None:
        """EXP-024."""
        life = fate.life
        send = life.send
        claim = self.claims["EXP-024"]
        told = f"{send.message} was to live for {send.life_ms} ms by the broker's clock"
        for arrival in life.arrivals:
            from_ns = self._scene.assigned_ns(life, arrival, windows=self._windows)
            low_ns, _ = self._dial.bounds_ns(from_ns, arrival.t1, NO_EVENT, arrival.seq)
            if low_ns >= fate.high_ns:
                claim.fail(
                    f"{told}; that clock read {low_ns // NS_PER_MS} or more, past the end at "
                    f"{fate.high_ns // NS_PER_MS - 1}, before {arrival.consumer} can have been given it",
                    [send.seq, arrival.seq],
                    outcome="delivered-dead",
                    slack_ns=fate.high_ns - 1 - low_ns,
                )
                return
            if self._mortality.alive(fate, from_ns, arrival.t1, NO_EVENT, arrival.seq):
                claim.hold(fate.skew, slack_ns=fate.low_ns - low_ns, outcome="while-it-lived")
        if life.letters and not fate.given_up() and not life.discards:
            letter = life.letters[0]
            high_ns = self._dial.bounds_ns(send.t0, letter.t1, send.seq, letter.seq)[1]
            if high_ns < fate.low_ns:
                claim.fail(
                    f"{told}, until {fate.low_ms} at the earliest; it was found among the dead letters (event "
                    f"{letter.seq}), and that clock had not read more than {high_ns // NS_PER_MS}",
                    [send.seq, letter.seq],
                    outcome="died-early",
                    slack_ns=high_ns - fate.low_ns,
                )
            else:
                claim.hold("it died while it waited", outcome="while-it-lived")
        end_ns = self._scene.end_ns
        if life.arrivals or life.letters or end_ns is None or not self._scene.complete or send.result != "ok":
            return
        if send.persistent and not may_be_swallowed(self._scene, self._mortality, fate, end_ns):
            alive = self._mortality.alive(fate, send.t0, end_ns, send.seq)
            if alive and not send.delay_ms and send.deliver_at_ms is None:
                claim.fail(f"{told}, longer than the run; nobody got it", [send.seq], outcome="died-early")

    def _judge_shown(self, fate: Fate) -> None:
        """EXP-025."""
        life = fate.life
        send = life.send
        claim = self.claims["EXP-025"]
        for arrival in life.arrivals:
            if arrival.expiration_ms > 0:
                claim.fail(
                    f"{send.message} was to live for {send.life_ms} ms by the broker's clock alone; {arrival.consumer} "
                    f"was told expiration {arrival.expiration_ms}",
                    [send.seq, arrival.seq],
                    outcome="shown",
                )
                return
            claim.hold(self._skew(arrival), outcome="not-shown")
        for discard in life.by_library():
            claim.fail(
                f"{send.message} was to live by the broker's clock alone; the library of {discard.consumer} discarded "
                f"it: {discard.reason}",
                [send.seq, discard.seq],
                outcome="discarded",
            )

    def _skew(self, arrival: Arrive) -> str:
        """How the consumer's clock stood to the broker's, as a situation."""
        if not self.clocks.known(arrival.host):
            return ""
        low_ns, high_ns = self.clocks.bounds_ns(arrival.host, arrival.t0, arrival.t1)
        mine_low, mine_high = self._dial.bounds_ns(arrival.t0, arrival.t1, arrival.seq, arrival.seq)
        if low_ns > mine_high + SKEW_MS * NS_PER_MS:
            return AHEAD
        return BEHIND if high_ns < mine_low - SKEW_MS * NS_PER_MS else AGREED

    # -- rescued by new stamps

    def _judge_rescue(self, fate: Fate) -> None:
        """TSP-014."""
        life = fate.life
        send = life.send
        sent_ms = send.timestamp_ms
        if self._mortality.spec is None or sent_ms is None or not 0 < sent_ms < send.expiration_ms:
            return
        low_ms, _ = self._dial.bounds_ms(send.t0, fate.accepted.t1, send.seq, fate.accepted.seq)
        if low_ms <= send.expiration_ms:
            return
        claim = self.claims["TSP-014"]
        text = (
            f"{send.message} came with expiration {send.expiration_ms} when the broker's clock read {low_ms} or more; "
            f"stamped by that clock it has {send.expiration_ms - sent_ms} ms to live"
        )
        if life.arrivals:
            claim.hold("its own stamps called it dead", outcome="rescued")
            return
        end_ns = self._scene.end_ns
        if life.letters and not fate.given_up() and not life.discards:
            letter = life.letters[0]
            if self._dial.bounds_ns(send.t0, letter.t1, send.seq, letter.seq)[1] < fate.low_ns:
                claim.fail(f"{text}; it is a dead letter", [send.seq, letter.seq], outcome="dead-on-arrival")
        elif not life.letters and end_ns is not None and self._absent(life, fate, end_ns):
            claim.fail(f"{text}, longer than the run; nobody got it", [send.seq], outcome="dead-on-arrival")

    def _absent(self, life: Life, fate: Fate, end_ns: int) -> bool:
        """Whether somebody must have got it by the end."""
        if not self._scene.complete or life.send.result != "ok":
            return False
        alive = self._mortality.alive(fate, life.send.t0, end_ns, life.send.seq)
        return alive and not may_be_swallowed(self._scene, self._mortality, fate, end_ns)
