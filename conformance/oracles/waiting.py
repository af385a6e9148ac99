"""Oracle: what surrounds a delayed message while it waits, and what it is like when it comes (DLY-012 and above).

Abstract model as in ``delay.py``: due in ``[send.t0 + D, send.t1 + D]`` on true time; an absolute delivery time A is
due when the broker's clock, read at acceptance, has A - reading to go. In a transaction the delay counts from the send,
and the message is visible when both the delay and the commit are over.

Analyses:

1. DLY-012: of two messages of one producer with equal delay and priority, the one whose send was confirmed before the
   other's began arrives first, where one consumer alone was attached from the first send on.
2. DLY-015: timestamp, priority, kind and group arrive as they were sent (a time-stamping broker's timestamps are
   another requirement's affair).
3. DLY-017: a message that died for certain before it was due, and that leaves a copy, leaves one, with its origin and
   its timestamp.
4. DLY-018: committed before it is due, it arrives within the lateness after the *send* plus D, where somebody waited.
5. DLY-019: it arrives not before its commit was asked for, and never if its transaction was rolled back.
6. DLY-020, DLY-022: what was published on a topic with a delay reaches no subscription that began after the send was
   confirmed; DLY-022 where the subscription had that name before, and was ended in between.
7. DLY-026: with an absolute delivery time, it does not arrive before the broker's clock at acceptance allows.
8. DLY-028: no library discards a delayed message that has no expiration, whatever its consumer's clock says.
9. DLY-037: at rest, a queue's ``scheduled`` is the number of messages that wait on it.

Not checked: what the lens clouds; messages in groups in 1. Must change together: ``delay.py``,
delay.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_topic
from brokerproof.conformance.experiment.history import (
    Abort,
    ClockSample,
    Commit,
    Event,
    Fault,
    Header,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.oracles.dial import NS_PER_MS, Dial
from brokerproof.conformance.oracles.fate import Mortality
from brokerproof.conformance.oracles.life import NEVER_NS, Life
from brokerproof.conformance.oracles.promptness import Promptness
from brokerproof.conformance.oracles.scene import KINDS
from brokerproof.conformance.oracles.stage import SceneOracle
from brokerproof.conformance.oracles.strategies import gets_letter

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import Arrive, Counters
    from brokerproof.conformance.oracles.wall import WallClocks

#: A difference between clocks that shows that a consumer's clock was another one.
SKEW_MS = 50


class WaitingOracle(SceneOracle):
    """See the module's header."""

    name = "waiting"
    requirements = (
        "DLY-012",
        "DLY-015",
        "DLY-017",
        "DLY-018",
        "DLY-019",
        "DLY-020",
        "DLY-022",
        "DLY-026",
        "DLY-028",
        "DLY-037",
    )
    kinds = (*KINDS, "clock_sample", "commit", "abort", "unsubscribe")
    looks = (ClockSample, Commit, Abort, Unsubscribe, Send, Subscribe, Fault)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._dial = Dial(clocks, "")
        self._delayed = False
        #: As they were, with the results that the lens puts in doubt.
        self._sends: dict[str, Send] = {}
        #: (host, transaction) -> how it ended.
        self._ends: dict[tuple[str, str], Commit | Abort] = {}
        #: (host, durable name) -> the ends of that subscription.
        self._unsubscribed: dict[tuple[str, str], list[Unsubscribe]] = {}
        #: (host, durable name) -> its consumers, in order.
        self._durables: dict[tuple[str, str], list[Subscribe]] = {}

    def start(self, header: Header) -> None:
        super().start(header)
        self._dial = Dial(self.clocks, header.broker_host)

    def feed(self, event: Event) -> None:
        if isinstance(event, ClockSample):
            if event.host == self._dial.host:
                self._dial.sample(event)
            return
        if isinstance(event, Commit | Abort):
            self._ends[event.host, event.tx] = event
        elif isinstance(event, Unsubscribe):
            self._unsubscribed.setdefault((event.host, event.durable), []).append(event)
        else:
            super().feed(event)
            self._note(event)

    def _note(self, event: Event) -> None:
        if isinstance(event, Send):
            if _is_delayed(event):
                self._delayed = True
                self._sends[event.message] = event
        elif isinstance(event, Subscribe):
            if event.durable:
                self._durables.setdefault((event.host, event.durable), []).append(event)
        elif isinstance(event, Fault) and event.fault == "clock" and event.target == self._dial.host:
            self._dial.fault(event)

    def conclude(self) -> None:
        if not self._delayed:
            return
        scene = self._stage.scene()
        self._scene = scene
        self._mortality = Mortality(self._dial, self._header.declared.timestamping)
        self._promptness = Promptness(scene, self._header.declared.lateness_ms * NS_PER_MS)
        for dest, lives in scene.dests.items():
            if dest == DEAD_LETTERS:
                continue
            delayed = [life for life in lives if _is_delayed(life.send) and life.send.result != "fail"]
            for life in delayed:
                self._judge(life)
            if not is_topic(dest):
                self._judge_order(dest, delayed)
                self._judge_figures(dest, lives)

    def _judge(self, life: Life) -> None:
        send = life.send
        self._judge_likeness(life)
        self._judge_discards(life)
        if send.tx is not None:
            self._judge_transaction(life)
        if is_topic(send.dest):
            for arrival in life.arrivals:
                self._judge_audience(life, arrival)
            self._judge_ended(life)
            return
        due = self._due_of(life)
        if due is None:
            return
        if send.tx is None:
            self._judge_death(life, due)
        if send.deliver_at_ms is not None and not send.delay_ms and send.tx is None:
            self._judge_absolute(life, due)

    def _due_of(self, life: Life) -> tuple[int, int] | None:
        """When it is due; None if that is not known."""
        accepted = life.accepted()
        return None if accepted is None else self._due_ns(life.send, accepted)

    def _due_ns(self, send: Send, accepted: Event) -> tuple[int, int] | None:
        """When a message is due that had been accepted by the end of an event; None if that is not known."""
        if send.delay_ms:
            delay_ns = send.delay_ms * NS_PER_MS
            return send.t0 + delay_ns, accepted.t1 + delay_ns
        if send.deliver_at_ms is None or not self._dial.known:
            return None
        low_ns, high_ns = self._dial.bounds_ns(send.t0, accepted.t1, send.seq, accepted.seq)
        # The broker counts in whole milliseconds of its clock.
        low_ms = send.deliver_at_ms - high_ns // NS_PER_MS
        high_ms = send.deliver_at_ms - low_ns // NS_PER_MS
        return send.t0 + max(0, low_ms) * NS_PER_MS, accepted.t1 + max(0, high_ms) * NS_PER_MS

    # -- order

    def _judge_order(self, dest: str, delayed: list[Life]) -> None:
        """DLY-012."""
        claim = self.claims["DLY-012"]
        latest: dict[tuple[str, int, int], Life] = {}
        for life in sorted(delayed, key=lambda one: one.send.t0):
            send = life.send
            if not send.delay_ms or send.result != "ok" or send.tx is not None or send.group or not life.arrivals:
                continue
            key = (send.host, send.delay_ms, send.priority)
            before = latest.get(key)
            latest[key] = life
            if before is None or before.send.t1 > send.t0:
                continue
            mine, others = life.arrivals[0], before.arrivals[0]
            if mine.consumer != others.consumer or not self._alone(dest, mine.consumer, before.send.t0, others.t1):
                continue
            if others.seq < mine.seq:
                claim.hold("two messages of one producer with equal delays", outcome="in-order")
            else:
                claim.fail(
                    f"{before.send.message} and then {send.message} were sent by {send.host} with a delay of "
                    f"{send.delay_ms} ms each; {mine.consumer} got {send.message} first",
                    [before.send.seq, send.seq, mine.seq, others.seq],
                    outcome="out-of-order",
                )

    def _alone(self, dest: str, consumer: str, t0: int, t1: int) -> bool:
        """Whether nobody else can have had messages of that queue in the meantime, and this consumer kept its own."""
        for visit in self._scene.visit_names.values():
            there = visit.subscribe.dest == dest or visit.subscribe.dest.endswith("*")
            if not there or visit.subscribe.t0 > t1 or visit.gone_ns < t0:
                continue
            if visit.subscribe.consumer != consumer or visit.uncertain or visit.subscribe.selector:
                return False
        return True

    # -- what it is like

    def _judge_likeness(self, life: Life) -> None:
        """DLY-015."""
        send = life.send
        claim = self.claims["DLY-015"]
        stamped = self._header.declared.timestamping is not None or send.timestamp_ms is None
        for arrival in life.arrivals:
            found = [
                (name, sent, came)
                for name, sent, came in (
                    ("timestamp", arrival.timestamp_ms if stamped else send.timestamp_ms, arrival.timestamp_ms),
                    ("priority", send.priority, arrival.priority),
                    ("kind", send.message_kind, arrival.message_kind),
                    ("group", send.group, arrival.group),
                )
                if came is not None and came != sent
            ]
            if found:
                name, sent, came = found[0]
                claim.fail(
                    f"{send.message} was sent with a delay of {_asked(send)} and {name} {sent!r}; it arrived with "
                    f"{name} {came!r}",
                    [send.seq, arrival.seq],
                    outcome="changed",
                )
                return
            claim.hold("" if stamped else "its timestamp was compared", outcome="unchanged")

    def _judge_discards(self, life: Life) -> None:
        """DLY-028."""
        send = life.send
        spec = self._header.declared.timestamping
        if send.mortal() or (spec is not None and spec.zero_expiration_override_ms > 0):
            return
        claim = self.claims["DLY-028"]
        for discard in life.by_library():
            claim.fail(
                f"{send.message} was sent with a delay of {_asked(send)} and without expiration; the library of "
                f"{discard.consumer} discarded it: {discard.reason}",
                [send.seq, discard.seq],
                outcome="dropped",
            )
        for consume in life.consumes:
            claim.hold(self._skew(consume), outcome="not-dropped")

    def _skew(self, event: Event) -> str:
        if not self._dial.known or not self.clocks.known(event.host):
            return ""
        low_ns, high_ns = self.clocks.bounds_ns(event.host, event.t0, event.t1)
        mine_low, mine_high = self._dial.bounds_ns(event.t0, event.t1, event.seq, event.seq)
        if low_ns > mine_high + SKEW_MS * NS_PER_MS:
            return "the consumer's clock was ahead of the broker's"
        return "the consumer's clock was behind the broker's" if high_ns < mine_low - SKEW_MS * NS_PER_MS else ""

    def _judge_death(self, life: Life, due: tuple[int, int]) -> None:
        """DLY-017."""
        send = life.send
        scene = self._scene
        end_ns = scene.end_ns
        kept = gets_letter(self._header.declared, send.dest, send.persistent, expired=True)
        if not send.mortal() or not self._dial.known or not kept or not scene.complete or end_ns is None:
            return
        fate = self._mortality.fate_of(life)
        if fate is None or send.result != "ok" or fate.dead_at_first or not self._mortality.dead(fate, due[0], end_ns):
            return
        claim = self.claims["DLY-017"]
        text = f"{send.message} died (expiration {fate.low_ms}) before its delay of {_asked(send)} was over; "
        letters = [letter for letter in life.letters if not letter.redelivered]
        if not letters:
            claim.fail(f"{text}it is no dead letter", [send.seq], outcome="unseen")
        elif len(letters) > 1:
            claim.fail(
                f"{text}it has {len(letters)} dead letters",
                [send.seq, *(letter.seq for letter in letters[:2])],
                outcome="several",
            )
        elif letters[0].original_dest != send.dest:
            claim.fail(
                f"{text}its dead letter names {letters[0].original_dest!r} as its origin, not {send.dest!r}",
                [send.seq, letters[0].seq],
                outcome="disguised",
            )
        else:
            claim.hold("it died while it waited", outcome="once")

    # -- transactions

    def _judge_transaction(self, life: Life) -> None:
        """DLY-018, DLY-019."""
        send = life.send
        end = self._ends.get((send.host, send.tx or ""))
        sent = self._sends.get(send.message)
        if end is None or end.result != "ok" or sent is None or sent.result != "ok":
            return
        claim = self.claims["DLY-019"]
        first = next(iter([*life.arrivals, *life.letters]), None)
        if isinstance(end, Abort):
            if first is not None and end.t1 < first.t0:
                claim.fail(
                    f"{send.message} was sent with a delay of {_asked(send)} in {send.tx}, which was rolled back; it "
                    f"arrived at {first.consumer}",
                    [send.seq, end.seq, first.seq],
                    outcome="in-spite-of-rollback",
                )
            elif first is None and self._scene.end_ns is not None:
                claim.hold("rolled back", outcome="as-committed")
            return
        if first is not None and first.t1 < end.t0:
            claim.fail(
                f"{send.message} arrived at {first.consumer} {(end.t0 - first.t1) / NS_PER_MS:.3f} ms before its "
                "transaction was to be committed",
                [send.seq, first.seq, end.seq],
                outcome="before-commit",
            )
            return
        due = self._due_ns(sent, sent)
        if due is None or is_topic(send.dest):
            return
        if first is not None:
            over = due[1] < end.t0
            claim.hold("the delay was over before the commit" if over else "committed", outcome="as-committed")
        self._judge_from_send(life, due, end)

    def _judge_from_send(self, life: Life, due: tuple[int, int], commit: Commit) -> None:
        """DLY-018."""
        send = life.send
        from_ns, to_ns = max(due[0], commit.t0), max(due[1], commit.t1)
        lateness_ns = self._promptness.lateness_ns
        if send.mortal() or self._mortality.spec is not None:
            return
        waiting = self._promptness.waiting(life, from_ns, to_ns)
        if not waiting:
            return
        low_ns, high_ns = self._promptness.arrived_ns(life, waiting)
        claim = self.claims["DLY-018"]
        if high_ns <= to_ns + lateness_ns:
            over = due[1] < commit.t0
            claim.hold("the delay was over before the commit" if over else "committed early", outcome="from-the-send")
        elif low_ns > to_ns + lateness_ns:
            when = "never" if low_ns == NEVER_NS else f"{(low_ns - to_ns) / NS_PER_MS:.3f} ms later"
            claim.fail(
                f"{send.message} was sent in {send.tx} with a delay of {_asked(send)}; with its commit it was visible "
                f"at {to_ns / NS_PER_MS:.3f} ms at the latest, and it arrived {when}, while somebody waited",
                [send.seq, commit.seq, *(arrival.seq for arrival in life.arrivals[:1])],
                outcome="from-the-commit",
            )

    # -- topics

    def _judge_audience(self, life: Life, arrival: Arrive) -> None:
        """DLY-020, DLY-022."""
        send = life.send
        visit = self._scene.visit_of(arrival.consumer)
        if visit is None or send.tx is not None:
            return  # what is sent in a transaction is published at its commit
        subscribe = visit.subscribe
        since = subscribe
        again = False
        if subscribe.durable:
            key = (subscribe.host, subscribe.durable)
            ends = [end for end in self._unsubscribed.get(key, []) if end.seq < subscribe.seq]
            if any(end.result != "ok" for end in ends):
                return
            mine = [one for one in self._durables[key] if not ends or one.seq > ends[-1].seq]
            since, again = mine[0], bool(ends)
        claim = self.claims["DLY-022" if again else "DLY-020"]
        if since.t0 <= send.t1:
            self.claims["DLY-020"].hold("subscribed at the send", outcome="those-at-the-send")
            return
        if send.result != "ok":
            return  # nobody knows when the broker got it
        claim.fail(
            f"{send.message} was published on {send.dest} with a delay of {_asked(send)}; {arrival.consumer} got it, "
            f"whose subscription began {(since.t0 - send.t1) / NS_PER_MS:.3f} ms after the send was confirmed",
            [send.seq, since.seq, arrival.seq],
            outcome="late-subscriber",
        )

    def _judge_ended(self, life: Life) -> None:
        """DLY-022, the good end: a name ended and began again while the message waited, and nothing came under it."""
        send = life.send
        due = self._due_of(life)
        end_ns = self._scene.end_ns
        if due is None or send.result != "ok" or end_ns is None or due[1] > end_ns:
            return
        got = [arrival.consumer for arrival in life.arrivals]
        for key, ends in self._unsubscribed.items():
            ended = next((e for e in ends if e.result == "ok" and send.t1 <= e.t0 and e.t1 < due[0]), None)
            if ended is None:
                continue
            mine = [one for one in self._durables.get(key, []) if one.dest == send.dest]
            before = any(one.t1 <= send.t0 for one in mine)
            after = [one.consumer for one in mine if ended.t1 <= one.t0 and one.t1 < due[0]]
            if before and after and not any(consumer in got for consumer in after):
                self.claims["DLY-022"].hold("its name began again", outcome="those-at-the-send")

    # -- absolute times

    def _judge_absolute(self, life: Life, due: tuple[int, int]) -> None:
        """DLY-026."""
        send = life.send
        if not life.arrivals:
            return
        arrival = life.arrivals[0]
        claim = self.claims["DLY-026"]
        if arrival.t1 < due[0]:
            claim.fail(
                f"{send.message} was to be delivered at {send.deliver_at_ms} by the broker's clock at acceptance; it "
                f"arrived {(due[0] - arrival.t1) / NS_PER_MS:.3f} ms earlier",
                [send.seq, arrival.seq],
                outcome="early",
                slack_ns=arrival.t1 - due[0],
            )
        elif due[1] > send.t1:
            claim.hold("in the future", slack_ns=arrival.t0 - due[0], outcome="by-the-brokers-clock")
        else:
            claim.hold("in the past", outcome="by-the-brokers-clock")

    # -- figures

    def _judge_figures(self, dest: str, lives: list[Life]) -> None:
        """DLY-037."""
        claim = self.claims["DLY-037"]
        if any(life.send.tx is not None for life in lives):
            return
        for reading in self._scene.counters:
            if reading.dest != dest or reading.scheduled is None or not reading.at_rest:
                continue
            low, high = self._waiting_at(lives, reading)
            if low <= reading.scheduled <= high:
                if high:
                    claim.hold("messages waited" if low else "", outcome="adds-up")
            else:
                bound = f"{low} to {high}" if low != high else str(low)
                claim.fail(
                    f"{dest} counts {reading.scheduled} scheduled messages at rest at {reading.t1 / NS_PER_MS:.3f} ms; "
                    f"{bound} of those sent with a delay can have been waiting",
                    [reading.seq],
                    outcome="does-not-add-up",
                )

    def _waiting_at(self, lives: list[Life], reading: Counters) -> tuple[int, int]:
        """How many must and may have been waiting."""
        low = high = 0
        for life in lives:
            send = life.send
            if not _is_delayed(send) or send.result == "fail" or send.t0 > reading.t1:
                continue
            gone = any(event.t1 <= reading.t0 for event in (*life.arrivals, *life.letters))
            due = self._due_of(life)
            if gone or (due is not None and due[1] < reading.t0):
                continue
            high += 1
            certain = due is not None and send.result == "ok" and send.t1 < reading.t0 and due[0] > reading.t1
            low += certain and not send.mortal() and self._header.declared.timestamping is None
        return low, high


def _is_delayed(send: Send) -> bool:
    return send.delay_ms > 0 or send.deliver_at_ms is not None


def _asked(send: Send) -> str:
    """The delay that a message was sent with, for texts."""
    if send.deliver_at_ms is not None and not send.delay_ms:
        return f"delivery time {send.deliver_at_ms}"
    return f"{send.delay_ms} ms"
