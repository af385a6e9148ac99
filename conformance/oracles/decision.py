"""The decision table of seed 000: what becomes of a message, given three clocks. Part of the expiry oracle (EXP-005,
EXP-007, EXP-008).

The clocks are the producer's (it stamps), the broker's (it decides, and stamps again with the plug-in) and the
consumer's (a JMS client decides a second time). Per message:

| by the broker's clock     | the consumer's library    | classic-5.14            | documented              |
|---------------------------|---------------------------|-------------------------|-------------------------|
| dead on arrival           | never sees it             | dead letter             | dead letter             |
| alive to the end          | does not check, or alive  | delivered               | delivered               |
| alive to the end          | dead by its clock         | discarded, dead letter  | discarded, stays for others |
| dies while it waits       | any                       | delivered or dead letter | delivered or dead letter |

"Dead letter" means a copy on the dead-letter queue if the message is persistent or the broker keeps non-persistent
ones; otherwise it vanishes. A client may discard only what its own clock can call expired between arrival and
discard, and hands to the application only what it need not; a STOMP client never discards.

EXP-007 is the table; its situations are the rows of the seed's stories. It is not about messages that the program
called expired, past the library. EXP-005 is about the copy: exactly one, expiration cleared, source named, and none
that nobody asked for. EXP-008 is about the client's expired-ack. It travels unanswered, so nothing is said if the
client's link was stalled or its process vanished before the ack can have got through.

Absence (no copy, not delivered) is judged after a complete drain only, and not where an ``auto`` consumer may have
swallowed the message: there the broker settles what it wrote, read or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import is_topic
from brokerproof.conformance.oracles.dial import NS_PER_MS
from brokerproof.conformance.oracles.scene import clients_may_have_discarded
from brokerproof.conformance.oracles.stamp import AHEAD, BEHIND, spec_for
from brokerproof.conformance.oracles.strategies import gets_letter

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import DeclaredSpec
    from brokerproof.conformance.experiment.history import Arrive, Consume, Discard, Header
    from brokerproof.conformance.oracles.base import Claim
    from brokerproof.conformance.oracles.dial import Dial
    from brokerproof.conformance.oracles.fate import Fate, Mortality
    from brokerproof.conformance.oracles.life import Life
    from brokerproof.conformance.oracles.scene import Scene


#: Rows of the seed's stories, as situations.
DEAD_ON_ARRIVAL = "the broker's clock was ahead by more than the time to live: dead on arrival"
BROKER_BEHIND = "the broker's clock was behind: delivered"
RESCUED = "the broker's clock was ahead by more than the time to live, and the plug-in rescued it"
DISCARDED_AFTER_STAMPING = "the broker's clock was behind, and the plug-in made a JMS consumer discard it"
FUTURE_ONLY = "the broker's clock was behind, and futureOnly left it alone: delivered"
DISCARDED = "the consumer's clock was ahead: discarded by a JMS consumer"
DISCARDED_WITH_PLUGIN = "the consumer's clock was ahead, which no plug-in heals: discarded by a JMS consumer"
UNCHECKED = "the consumer's clock was ahead, but its library does not check: delivered"
UNCHECKED_WITH_PLUGIN = "the plug-in made it look expired to its consumer, whose library does not check: delivered"


def believes_client(declared: DeclaredSpec) -> bool:
    """Whether the broker takes a client's word for it that a message has expired."""
    return declared.generation.get("expiry", "classic-5.14") == "classic-5.14"


def may_be_swallowed(scene: Scene, mortality: Mortality, fate: Fate, end_ns: int) -> bool:
    """Whether an ``auto`` consumer that lost its connection by ``end_ns`` may have been written a message that it never
    saw: the broker settles what it wrote.
    """
    send = fate.life.send
    for visit in scene.visits.get(send.dest, ()):
        if visit.settles_unseen and not scene.left_in_peace(visit):
            begin = max(send.t0, visit.subscribe.t0)
            until = min(visit.gone_ns, end_ns)
            if begin <= until and not mortality.dead(fate, begin, until):
                return True
    return False


class Decision:
    """Judges one message at a time."""

    __slots__ = ("_believes", "_claims", "_declared", "_dials", "_lateness_ns", "_mortality", "_scene")

    def __init__(
        self, claims: dict[str, Claim], scene: Scene, mortality: Mortality, dials: dict[str, Dial], header: Header
    ) -> None:
        self._claims = claims
        self._scene = scene
        self._mortality = mortality
        self._dials = dials
        self._declared = header.declared
        self._believes = believes_client(header.declared)
        self._lateness_ns = header.declared.lateness_ms * NS_PER_MS

    def judge(self, fate: Fate) -> None:
        """One message that can expire."""
        life = fate.life
        if is_topic(life.send.dest):
            return
        self._judge_copies(fate)
        if not life.called_expired:
            row_kept = self._judge_clients(fate)
            if life.send.delay_ms == 0 and life.send.deliver_at_ms is None:
                self._judge_row(fate, row_kept)
        if life.discards:
            self._judge_expired_ack(fate, life.discards[0])

    # -- EXP-005

    def _has_copy(self, life: Life) -> bool:
        """Whether the broker keeps a copy of it when it dies."""
        return gets_letter(self._declared, life.send.dest, life.send.persistent, expired=True)

    def _judge_copies(self, fate: Fate) -> None:
        life = fate.life
        send = life.send
        claim = self._claims["EXP-005"]
        if not life.letters:
            if self._certainly_died(fate):
                if self._has_copy(life):
                    claim.fail(
                        f"{send.message} died on {send.dest} (expiration {fate.low_ms}) and nobody got it, but the "
                        "dead-letter "
                        "queue does not hold it",
                        [send.seq],
                        outcome="missing",
                    )
                else:
                    claim.hold("a non-persistent message died", outcome="no-copy")
            return
        letter = life.letters[0]
        if not self._has_copy(life):
            claim.fail(
                f"{send.message} is not persistent, and the broker keeps no dead letters of such; event {letter.seq} "
                "finds it "
                "on the dead-letter queue",
                [send.seq, letter.seq],
                outcome="uninvited",
            )
        elif letter.expiration_ms > 0 or letter.original_dest != send.dest:
            claim.fail(
                f"the dead letter of {send.message} has expiration {letter.expiration_ms} and original destination "
                f"{letter.original_dest!r}; it should have none and {send.dest!r}",
                [send.seq, letter.seq],
                outcome="wrong-fields",
            )
        elif len(life.letters) > 1 and not life.letters[1].redelivered:
            claim.fail(
                f"{send.message} has {len(life.letters)} dead letters (events {letter.seq} and {life.letters[1].seq})",
                [send.seq, letter.seq, life.letters[1].seq],
                outcome="duplicate",
            )
        else:
            claim.hold(
                "a persistent message died" if send.persistent else "a non-persistent message died", outcome="one-copy"
            )

    def _certainly_died(self, fate: Fate) -> bool:
        """It waited on its queue, nobody got it, and it was dead when the drain came for it."""
        life = fate.life
        drain_ns, end_ns = self._scene.drain_ns, self._scene.end_ns
        if life.arrivals or life.send.result != "ok" or not self._scene.complete or drain_ns is None or end_ns is None:
            return False
        return self._mortality.dead(fate, drain_ns, end_ns) and not may_be_swallowed(
            self._scene, self._mortality, fate, end_ns
        )

    # -- EXP-007

    def _judge_clients(self, fate: Fate) -> bool:
        """What libraries did with it, by their own clocks; False if a row of the table was broken."""
        life = fate.life
        kept = True
        for discard in life.discards:
            arrival = _arrival_of(life, discard.consumer, discard.seq)
            if arrival is not None:
                kept = self._may_discard(life, arrival, discard) and kept
        for consume in life.consumes:
            arrival = _arrival_of(life, consume.consumer, consume.seq)
            visit = self._scene.visit_of(consume.consumer)
            if arrival is not None and visit is not None and visit.checks:
                kept = self._may_consume(life, arrival, consume) and kept
        return kept

    def _may_discard(self, life: Life, arrival: Arrive, discard: Discard) -> bool:
        visit = self._scene.visit_of(discard.consumer)
        dial = self._dials.get(discard.host)
        if visit is None or dial is None:
            return True
        alive_ns = (arrival.expiration_ms + 1) * NS_PER_MS
        high_ns = dial.bounds_ns(arrival.t0, discard.t1, arrival.seq, discard.seq)[1]
        if visit.checks and arrival.expiration_ms > 0 and high_ns >= alive_ns:
            return True
        why = f"whose clock read {high_ns // NS_PER_MS} at most" if visit.checks else "which checks no expirations"
        self._claims["EXP-007"].fail(
            f"{life.send.message} with expiration {arrival.expiration_ms} was discarded by {discard.consumer}, {why}",
            [life.send.seq, arrival.seq, discard.seq],
            outcome="discarded-alive",
            slack_ns=high_ns - alive_ns if visit.checks else None,
        )
        return False

    def _may_consume(self, life: Life, arrival: Arrive, consume: Consume) -> bool:
        dial = self._dials.get(consume.host)
        if dial is None or arrival.expiration_ms <= 0:
            return True
        dead_ns = (arrival.expiration_ms + 1) * NS_PER_MS
        low_ns = dial.bounds_ns(arrival.t0, consume.t1, arrival.seq, consume.seq)[0]
        if low_ns < dead_ns:
            return True
        self._claims["EXP-007"].fail(
            f"{life.send.message} with expiration {arrival.expiration_ms} was given to the application by "
            f"{consume.consumer}, "
            f"which checks, and whose clock read {low_ns // NS_PER_MS} or more from the arrival on",
            [life.send.seq, arrival.seq, consume.seq],
            outcome="consumed-dead",
            slack_ns=dead_ns - 1 - low_ns,
        )
        return False

    def _judge_row(self, fate: Fate, kept: bool) -> None:
        life = fate.life
        send = life.send
        claim = self._claims["EXP-007"]
        end_ns = self._scene.end_ns
        if end_ns is None:
            return
        if fate.dead_at_first:
            if life.arrivals:
                claim.fail(
                    f"{send.message} was dead on arrival (expiration {fate.low_ms}) and was delivered all the same",
                    [send.seq, life.arrivals[0].seq],
                    outcome="delivered-dead",
                )
            elif kept:
                claim.hold(self._story(fate), outcome="as-the-table-says")
            return
        if not self._mortality.alive(fate, send.t0, end_ns, send.seq):
            if kept and (life.consumes or life.discards or life.letters):
                claim.hold("it died while it waited or was on its way", outcome="as-the-table-says")
            return
        if (
            life.letters
            and not fate.given_up()
            and not (self._believes and clients_may_have_discarded(self._scene, life))
        ):
            claim.fail(
                f"{send.message} lived to the end by the broker's clock (expiration {fate.low_ms}) and nobody gave "
                "it up, but "
                "it is a dead letter",
                [send.seq, life.letters[0].seq],
                outcome="dead-lettered-alive",
            )
        elif life.arrivals:
            if kept:
                claim.hold(self._story(fate), outcome="as-the-table-says")
        elif (
            not life.letters
            and send.result == "ok"
            and self._scene.complete
            and not may_be_swallowed(self._scene, self._mortality, fate, end_ns)
        ):
            claim.fail(
                f"{send.message} lived to the end by the broker's clock (expiration {fate.low_ms}), but no consumer "
                "got it, not "
                "even in the drain",
                [send.seq],
                outcome="not-delivered",
            )

    def _story(self, fate: Fate) -> str:
        """The row of the seed's stories that this message tells, as a situation; "" if none."""
        life = fate.life
        spec = spec_for(self._declared.timestamping, life.send)
        if fate.dead_at_first:
            return DEAD_ON_ARRIVAL if spec is None and fate.skew == BEHIND else ""
        if not life.arrivals:
            return ""
        arrival = life.arrivals[0]
        visit = self._scene.visit_of(arrival.consumer)
        if visit is None:
            return ""
        if life.discards:
            if spec is not None and not spec.future_only and fate.skew == AHEAD:
                return DISCARDED_AFTER_STAMPING
            return DISCARDED if spec is None else DISCARDED_WITH_PLUGIN
        if spec is not None and fate.skew == BEHIND and 0 < life.send.expiration_ms < arrival.timestamp_ms:
            return RESCUED
        if not visit.checks and self._is_dead_for(arrival):
            return UNCHECKED if spec is None else UNCHECKED_WITH_PLUGIN
        if fate.skew != AHEAD:
            return ""
        return FUTURE_ONLY if spec is not None and spec.future_only else BROKER_BEHIND if spec is None else ""

    def _is_dead_for(self, arrival: Arrive) -> bool:
        """Whether it arrived when the clock of its consumer's host was past its expiration."""
        dial = self._dials.get(arrival.host)
        if dial is None or arrival.expiration_ms <= 0:
            return False
        return dial.bounds_ms(arrival.t0, arrival.t1, arrival.seq, arrival.seq)[0] > arrival.expiration_ms

    # -- EXP-008

    def _judge_expired_ack(self, fate: Fate, discard: Discard) -> None:
        life = fate.life
        send = life.send
        end_ns = self._scene.end_ns
        if end_ns is None or life.nacks:
            return
        claim = self._claims["EXP-008"]
        others = [arrival for arrival in life.arrivals if arrival.consumer != discard.consumer]
        later = next((arrival for arrival in others if arrival.t0 > discard.t1), None)
        if self._believes:
            if not self._got_through(discard):
                return
            if later is not None:
                claim.fail(
                    f"{discard.consumer} discarded {send.message} as expired (event {discard.seq}), which this "
                    "generation of broker "
                    f"believes; {later.consumer} got it afterwards",
                    [send.seq, discard.seq, later.seq],
                    outcome="handed-on",
                )
            elif life.letters or not self._has_copy(life):
                claim.hold(fate.skew, outcome="dead-lettered")
            elif self._scene.complete and send.result == "ok":
                claim.fail(
                    f"{discard.consumer} discarded {send.message} as expired (event {discard.seq}); the dead-letter "
                    "queue does not "
                    "hold it",
                    [send.seq, discard.seq],
                    outcome="lost",
                )
            return
        if not self._mortality.alive(fate, send.t0, end_ns, send.seq):
            return
        if life.letters:
            claim.fail(
                f"{discard.consumer} discarded {send.message} as expired; it lived by the broker's clock (expiration "
                f"{fate.low_ms}), which alone counts in this generation; it is a dead letter",
                [send.seq, discard.seq, life.letters[0].seq],
                outcome="buried-alive",
            )
        elif any(arrival.t1 > discard.t0 for arrival in others):
            claim.hold(fate.skew, outcome="stays")
        elif self._scene.complete and not may_be_swallowed(self._scene, self._mortality, fate, end_ns):
            claim.fail(
                f"{discard.consumer} discarded {send.message} as expired; it lived by the broker's clock (expiration "
                f"{fate.low_ms}), but nobody else got it, not even in the drain",
                [send.seq, discard.seq],
                outcome="lost",
            )

    def _got_through(self, discard: Discard) -> bool:
        """Whether the expired-ack that follows a discard has certainly reached the broker."""
        until_ns = discard.t1 + self._lateness_ns
        visit = self._scene.visit_of(discard.consumer)
        if visit is None or visit.uncertain or self._scene.stalled(discard.host, discard.t0, until_ns):
            return False
        return visit.leave is None or visit.leave.how == "close" or visit.leaving_ns > until_ns


def _arrival_of(life: Life, consumer: str, seq: int) -> Arrive | None:
    """The latest arrival at that consumer before the event ``seq``."""
    found: Arrive | None = None
    for arrival in life.arrivals:
        if arrival.consumer == consumer and arrival.seq < seq:
            found = arrival
    return found
