"""Oracle: what delays a broker takes, and how it releases what waits among much else (DLY-013, DLY-014, DLY-021,
DLY-027, DLY-029 to DLY-036).

Abstract model as in ``delay.py``: due in ``[send.t0 + D, send.t1 + D]`` on true time. Nothing but the delay itself
holds a message back: not the number of others that wait, nor a destination that is full, nor that its own consumer gave
it back. A delay that the broker does not take is refused.

Analyses:

1. DLY-021: a durable subscription existed at the send and had no consumer when the message was due; the one that it had
   later got the message.
2. DLY-029: a negative delay is refused, or the message arrives in time as one without a delay.
3. DLY-030, DLY-031: a delay above the declared maximum, or any delay at a broker that declares to know none, is
   refused.
4. DLY-034: a message arrives in time although another destination, which has a memory limit of its own, was full for
   certain and had due messages.
5. DLY-035: a message arrives in time although at least ``DEEP`` others waited for a later time.
6. DLY-036: a message that its consumer gave back by leaving arrives again within the lateness while somebody waited.
   Told apart from a new delay only if the delay is longer than the lateness.
7. DLY-013, DLY-014: the delivery time that a receiver reads is the one that the sender read, which is what the sender's
   clock showed at the send plus the delay; a time that the application had set on the message itself is not seen.
8. DLY-027: the broker's process stood still when a message was due; it arrives once, within the lateness after the
   process went on, while somebody waited all the time with room for everything on that queue.

Not checked: messages that can expire, or were sent in a transaction; 1 with a selector or noLocal, or after the
subscription had ended once; 4 while the broker's own memory may be scarce. Must change together: ``delay.py``,
``promptness.py``, delay.toml.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_topic
from brokerproof.conformance.experiment.history import (
    Abort,
    Ack,
    Arrive,
    Discard,
    Event,
    Leave,
    Nack,
    Pause,
    Phase,
    Send,
    Subscribe,
    Unsubscribe,
)
from brokerproof.conformance.oracles.dial import NS_PER_MS
from brokerproof.conformance.oracles.life import NEVER_NS, Life, Visit
from brokerproof.conformance.oracles.promptness import Promptness
from brokerproof.conformance.oracles.records import JMS_DELIVERIES, own_limit_bytes
from brokerproof.conformance.oracles.scene import KINDS, OVERHEAD_BYTES
from brokerproof.conformance.oracles.stage import SceneOracle

if TYPE_CHECKING:
    from brokerproof.conformance.oracles.wall import WallClocks

#: So many waiting messages are a deep backlog.
DEEP: Final = 100


class Keep(NamedTuple):
    """A message that kept memory of its destination in use."""

    from_ns: int
    end_ns: int
    size: int
    delayed: bool


class ReleaseOracle(SceneOracle):
    """See the module's header."""

    name = "release"
    # fmt: off
    requirements = (
        "DLY-013", "DLY-014", "DLY-021", "DLY-027", "DLY-029", "DLY-030", "DLY-031", "DLY-034", "DLY-035", "DLY-036",
    )
    # fmt: on
    kinds = (*KINDS, "abort", "unsubscribe")
    looks = (Abort, Unsubscribe, Pause, Arrive, Send, Leave, Phase, Subscribe, Ack)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._sends: list[Send] = []
        #: Messages with a negative delay, which the scene does not know.
        self._negative: dict[str, int] = {}
        #: Messages whose producer read, or had set, a delivery time.
        self._timed: dict[str, Send] = {}
        self._read: list[Arrive] = []
        self._pauses: list[Pause] = []
        #: Somebody left before the drain, in which everybody does.
        self._left = False
        self._drained = False
        #: (host, durable name) -> its consumers, in order; those that ended once.
        self._durables: dict[tuple[str, str], list[Subscribe]] = {}
        self._ended: dict[tuple[str, str], bool] = {}
        #: (host, transaction) that were rolled back.
        self._aborted: dict[tuple[str, str], bool] = {}
        #: Acknowledgements in transactions: (consumer, message) -> (host, transaction).
        self._pledged: dict[tuple[str, str], tuple[str, str]] = {}

    def feed(self, event: Event) -> None:
        if isinstance(event, Abort | Unsubscribe):
            self._end(event)
            return
        super().feed(event)
        if isinstance(event, Pause):
            if event.target == self._header.broker_host:
                self._pauses.append(event)
        elif isinstance(event, Arrive):
            if event.delivery_time_ms is not None or event.message in self._timed:
                self._read.append(event)
        elif isinstance(event, Send):
            if event.delivery_time_ms is not None or event.preset_ms is not None:
                self._timed[event.message] = event
            if event.delay_ms or event.deliver_at_ms is not None:
                self._sends.append(event)
            if event.delay_ms < 0:
                self._negative[event.message] = event.delay_ms
        else:
            self._note(event)

    def _end(self, event: Abort | Unsubscribe) -> None:
        if isinstance(event, Unsubscribe):
            if not self._drained:  # at the end everything is
                self._ended[event.host, event.durable] = True
        elif event.result == "ok":
            self._aborted[event.host, event.tx] = True

    def _note(self, event: Event) -> None:
        if isinstance(event, Leave):
            self._left = self._left or not self._drained
        elif isinstance(event, Phase):
            self._drained = event.name == "drain"
        elif isinstance(event, Subscribe):
            if event.durable:
                self._durables.setdefault((event.host, event.durable), []).append(event)
        elif isinstance(event, Ack) and event.tx is not None:
            for message in event.messages:
                self._pledged[event.consumer, message] = (event.host, event.tx)

    def conclude(self) -> None:
        for send in self._sends:
            self._judge_offer(send)
        for arrival in self._read:  # now that all clocks are known
            self._judge_time(arrival)
        if not self._worth_a_scene():
            return
        scene = self._stage.scene()
        self._scene = scene
        lateness_ns = self._header.declared.lateness_ms * NS_PER_MS
        self._limited = self._limited_dests()
        self._promptness = Promptness(scene, lateness_ns)
        self._whatever_memory = Promptness(scene, lateness_ns, whatever_memory=True)
        stamping = self._header.declared.timestamping
        gives_life = stamping is not None and stamping.zero_expiration_override_ms > 0
        waits: dict[str, list[Life]] = {}
        for send in self._sends:
            life = scene.lives.get(send.message)
            plain = send.result == "ok" and send.tx is None and not send.mortal() and send.deliver_at_ms is None
            if life is not None and plain and send.dest != DEAD_LETTERS and not gives_life:
                waits.setdefault(send.dest, []).append(life)
        for dest, lives in waits.items():
            due = sorted(_due_ns(life.send)[0] for life in lives)
            for life in lives:
                self._judge(dest, life, due)

    def _worth_a_scene(self) -> bool:
        """Whether anything happened that only the scene can judge; most runs need none of this."""
        deep = len(self._sends) > DEEP or bool(self._negative)
        limits = any(entry.memory_limit_bytes for entry in self._header.declared.destinations)
        return bool(self._sends) and (bool(self._pauses) or deep or limits or self._left or bool(self._durables))

    # -- what is not taken

    def _judge_offer(self, send: Send) -> None:
        """DLY-029's refusals, DLY-030, DLY-031."""
        declared = self._header.declared
        if send.tx is not None or send.result == "unknown":
            return
        if not declared.delay_support:
            self._judge_refusal("DLY-031", send, "a broker that declares to know no delays")
        elif 0 < declared.delay_max_ms < send.delay_ms:
            self._judge_refusal("DLY-030", send, f"a broker that declares a maximum of {declared.delay_max_ms} ms")
        elif send.delay_ms < 0 and send.result == "fail":
            self.claims["DLY-029"].hold("refused", outcome="refused")

    def _judge_refusal(self, requirement: str, send: Send, where: str) -> None:
        claim = self.claims[requirement]
        if send.result == "fail":
            claim.hold("refused", outcome="refused")
            return
        asked = f"a delay of {send.delay_ms} ms" if send.delay_ms else f"delivery time {send.deliver_at_ms}"
        claim.fail(f"{send.message} was sent with {asked} to {where}, and was taken", [send.seq], outcome="taken")

    # -- releases

    def _judge(self, dest: str, life: Life, due: list[int]) -> None:
        send = life.send
        if is_topic(dest):
            if send.delay_ms > 0:
                self._judge_absent(life)
            return
        low_ns, high_ns = _due_ns(send)
        waiting = self._promptness.waiting(life, low_ns, high_ns)
        if send.message in self._negative:
            self._judge_arrival("DLY-029", life, waiting, "taken as none", "was sent with a negative delay")
            return
        later = len(due) - bisect_right(due, high_ns + self._promptness.lateness_ns)
        if later >= DEEP:
            self._judge_arrival("DLY-035", life, waiting, "many waited", f"was due while {later} others waited")
        full = self._full(life)
        if full:
            waiting = self._whatever_memory.waiting(life, low_ns, high_ns)
            self._judge_arrival("DLY-034", life, waiting, "another one was full", f"was due while {full} was full")
        self._judge_return(life)
        for pause in self._pauses:
            if send.t1 < pause.t0 <= low_ns and high_ns <= pause.t1:
                self._judge_pause(life, pause)

    def _judge_pause(self, life: Life, pause: Pause) -> None:
        """DLY-027."""
        send = life.send
        until_ns = pause.t1 + self._promptness.lateness_ns
        sent = sum(1 for other in self._scene.dests[send.dest] if other.send.t0 <= until_ns)
        visits = [v for v in self._scene.visits.get(send.dest, ()) if v.gone_ns >= send.t0]
        if until_ns > self._scene.last_ns or self._scene.tight or self._scene.lens.picky(send.dest):
            return
        for visit in visits:
            stalled = self._scene.stalled(visit.host, send.t0, until_ns)
            if visit.uncertain or stalled or visit.leaving_ns <= until_ns or visit.subscribe.prefetch < sent:
                return
        if not visits or min(visit.subscribe.t1 for visit in visits) > send.t0:
            return
        claim = self.claims["DLY-027"]
        arrivals = [arrival for arrival in life.arrivals if arrival.t0 <= until_ns]
        text = f"{send.message} (delay {send.delay_ms} ms) was due while the broker's process stood still"
        if len(arrivals) > 1 and not life.send.mortal():
            claim.fail(f"{text}; it arrived twice", [send.seq, *(a.seq for a in arrivals[:2])], outcome="twice")
        elif not arrivals:
            claim.fail(f"{text}; it did not arrive in time after that", [send.seq, pause.seq], outcome="late")
        else:
            claim.hold("due while the process stood still", outcome="once", slack_ns=until_ns - arrivals[0].t1)

    def _judge_time(self, arrival: Arrive) -> None:
        """DLY-013, DLY-014."""
        send = self._timed.get(arrival.message)
        if send is None or arrival.dest != send.dest:
            return
        read_ms, sent_ms = arrival.delivery_time_ms, send.delivery_time_ms
        text = f"{send.message} arrived with delivery time {read_ms}; its sender read {sent_ms}"
        known = self.clocks.known(send.host)
        low_ns, high_ns = self.clocks.bounds_ns(send.host, send.t0, send.t1) if known else (0, 0)

        def fits(delivery_ms: int) -> bool:
            """Whether it is the sender's clock at the send plus the delay."""
            return low_ns - NS_PER_MS < (delivery_ms - max(0, send.delay_ms)) * NS_PER_MS <= high_ns

        if send.preset_ms is not None and known and send.deliver_at_ms is None and not fits(send.preset_ms):
            claim = self.claims["DLY-014"]
            if send.preset_ms in (read_ms, sent_ms):
                text = f"{text}, and its application had set {send.preset_ms}"
                claim.fail(text, [send.seq, arrival.seq], outcome="kept")
            else:
                claim.hold("with a delay" if send.delay_ms else "without a delay", outcome="ignored")
        if sent_ms is None:
            return
        claim = self.claims["DLY-013"]
        if read_ms != sent_ms:
            claim.fail(text, [send.seq, arrival.seq], outcome="changed")
        elif send.delay_ms <= 0 or not known:
            claim.hold("", outcome="as-sent")
        elif fits(sent_ms):
            claim.hold("the delay was added to the time of the send", outcome="as-sent")
        else:
            text = f"{text}; its clock read {low_ns // NS_PER_MS} to {high_ns // NS_PER_MS}, and it asked for"
            claim.fail(f"{text} {send.delay_ms} ms", [send.seq, arrival.seq], outcome="otherwise")

    def _judge_arrival(self, requirement: str, life: Life, waiting: list[Visit], situation: str, text: str) -> None:
        if not waiting:
            return
        send = life.send
        claim = self.claims[requirement]
        until_ns = _due_ns(send)[1] + self._promptness.lateness_ns
        low_ns, high_ns = self._promptness.arrived_ns(life, waiting)
        if high_ns <= until_ns:
            outcome = "taken-as-none" if requirement == "DLY-029" else "in-time"
            claim.hold(situation, slack_ns=until_ns - high_ns, outcome=outcome)
        elif low_ns > until_ns:
            delay_ms = self._negative.get(send.message, send.delay_ms)
            when = "did not arrive" if low_ns == NEVER_NS else f"arrived {(low_ns - until_ns) / NS_PER_MS:.3f} ms late"
            claim.fail(
                f"{send.message} (delay {delay_ms} ms) {text}, and somebody waited for it; it {when}",
                [send.seq, *(arrival.seq for arrival in life.arrivals[:1])],
                outcome="wrapped" if requirement == "DLY-029" else "late",
            )

    def _limited_dests(self) -> dict[str, list[Keep]]:
        """Destinations that may be full by limits of their own, with what was kept there; none where the memory of the
        whole broker may be scarce.
        """
        declared = self._header.declared
        lives = self._scene.lives.values()
        if sum(life.send.size + OVERHEAD_BYTES for life in lives) * 2 > declared.memory_limit_bytes > 0:
            return {}
        if declared.generation.get("memory", "fair") != "fair":
            return {}
        found: dict[str, list[Keep]] = {}
        for dest, others in self._scene.dests.items():
            limit = own_limit_bytes(declared.destinations, dest)
            if limit and sum(life.send.size for life in others) > limit:
                found[dest] = [keep for keep in map(self._keep_of, others) if keep is not None]
        return found

    def _full(self, life: Life) -> str:
        """Another destination that was over its own limit all the time with due messages, for certain; "" if none."""
        entries = self._header.declared.destinations
        if not self._limited or own_limit_bytes(entries, life.send.dest):
            return ""
        low_ns, high_ns = _due_ns(life.send)
        until_ns = high_ns + self._promptness.lateness_ns
        for dest, keeps in self._limited.items():
            kept = [keep for keep in keeps if keep.from_ns <= low_ns and until_ns < keep.end_ns]
            if sum(keep.size for keep in kept) > own_limit_bytes(entries, dest) and any(keep.delayed for keep in kept):
                return dest
        return ""

    def _keep_of(self, life: Life) -> Keep | None:
        """From when to when a message was on its queue, visible, and settled by nobody, for certain; None: never."""
        send = life.send
        if send.result != "ok" or send.mortal() or is_topic(send.dest):
            return None
        ends = [event.t0 for event in (*life.acks, *life.nacks, *life.discards, *life.letters)]
        for arrival in life.arrivals:
            visit = self._scene.visit_of(arrival.consumer)
            if visit is None or visit.settles_unseen:
                ends.append(arrival.t0)
        return Keep(send.t1 + send.delay_ms * NS_PER_MS, min(ends, default=NEVER_NS), send.size, send.delay_ms > 0)

    # -- DLY-036

    def _judge_return(self, life: Life) -> None:
        arrivals = life.arrivals
        for place, arrival in enumerate(arrivals[: JMS_DELIVERIES - 2]):
            visit = self._scene.visit_of(arrival.consumer)
            if visit is None or not self._gave_back(life, arrival, visit):
                return
            following = arrivals[place + 1] if place + 1 < len(arrivals) else None
            self._judge_again(life, arrival, visit, following)

    def _gave_back(self, life: Life, arrival: Arrive, visit: Visit) -> bool:
        """Whether its consumer left with it, unsettled, for certain."""
        consumer = arrival.consumer
        if visit.uncertain or visit.leave is None or visit.gone_ns == NEVER_NS or visit.subscribe.ack == "auto":
            return False
        if arrival.t1 > visit.leaving_ns:
            return False
        key = self._pledged.get((consumer, life.send.message))
        if key is not None and key not in self._aborted:
            return False
        ways_out: list[Ack | Nack | Discard] = [*life.acks, *life.nacks, *life.discards]
        settled = [event for event in ways_out if event.consumer == consumer and getattr(event, "tx", None) is None]
        return not settled

    def _judge_again(self, life: Life, arrival: Arrive, visit: Visit, following: Arrive | None) -> None:
        send = life.send
        from_ns = visit.gone_ns + 1
        come = [other.subscribe.t1 for other in self._scene.visits.get(send.dest, ()) if other.gone_ns > from_ns]
        if come and min(come) > from_ns:
            from_ns = min(come)
        waiting = self._promptness.waiting(life, from_ns, from_ns)
        until_ns = from_ns + self._promptness.lateness_ns
        if not waiting or send.delay_ms * NS_PER_MS <= self._promptness.lateness_ns:
            return
        if following is None and self._maybe_swallowed(send.dest, visit):
            return
        claim = self.claims["DLY-036"]
        if following is not None and following.t1 <= until_ns:
            pledged = (arrival.consumer, send.message) in self._pledged
            claim.hold("after a rollback" if pledged else "its consumer had left", outcome="at-once")
        elif following is None or following.t0 > until_ns:
            when = "never" if following is None else f"{(following.t0 - from_ns) / NS_PER_MS:.3f} ms later"
            assert visit.leave is not None
            claim.fail(
                f"{send.message} (delay {send.delay_ms} ms) had arrived at {arrival.consumer}, which left without "
                f"settling it; somebody waited, and it arrived again {when}",
                [send.seq, arrival.seq, visit.leave.seq, *([following.seq] if following is not None else [])],
                outcome="waited-again",
            )

    def _maybe_swallowed(self, dest: str, left: Visit) -> bool:
        """Whether what a consumer left behind may have been written to another that settles unseen, and was leaving."""
        scene = self._scene
        others = [visit for visit in scene.visits.get(dest, ()) if visit.settles_unseen]
        # In the drain they leave one after the other, and what one leaves goes to the next.
        drained = scene.drain_ns is not None and left.leaving_ns >= scene.drain_ns
        return any(visit.gone_ns >= left.leaving_ns and (drained or not scene.left_in_peace(visit)) for visit in others)

    # -- DLY-021

    def _judge_absent(self, life: Life) -> None:
        send = life.send
        low_ns, high_ns = _due_ns(send)
        for key, consumers in self._durables.items():
            if key in self._ended or consumers[0].t1 > send.t0 or not _same(consumers, send.dest):
                continue
            visits = [self._scene.visit_of(one.consumer) for one in consumers]
            known = [visit for visit in visits if visit is not None and not visit.uncertain]
            if len(known) != len(consumers):
                continue
            there = [visit for visit in known if visit.gone_ns >= low_ns and visit.subscribe.t0 <= high_ns]
            if not there and known[-1].subscribe.t0 > high_ns:
                self._judge_back(life, known, known[-1])

    def _judge_back(self, life: Life, visits: list[Visit], back: Visit) -> None:
        send = life.send
        claim = self.claims["DLY-021"]
        names = [visit.subscribe.consumer for visit in visits]
        got = next((arrival for arrival in life.arrivals if arrival.consumer in names), None)
        patient_ns = back.subscribe.t1 + self._promptness.lateness_ns
        if got is not None:
            claim.hold("it was offline", outcome="on-return")
        elif (
            self._scene.complete
            and back.leaving_ns >= patient_ns
            and not self._scene.stalled(back.host, back.subscribe.t0, patient_ns)
            and not self._scene.tight
        ):
            claim.fail(
                f"{send.message} (delay {send.delay_ms} ms) was published while the durable subscription "
                f"{back.subscribe.durable!r} of {back.host} existed; its consumer {back.subscribe.consumer} came "
                f"{(back.subscribe.t0 - _due_ns(send)[1]) / NS_PER_MS:.3f} ms after the delay was over, and never got "
                "it",
                [send.seq, back.subscribe.seq],
                outcome="missed",
            )


def _due_ns(send: Send) -> tuple[int, int]:
    """When a confirmed message is due."""
    delay_ns = max(0, send.delay_ms) * NS_PER_MS
    return send.t0 + delay_ns, send.t1 + delay_ns


def _same(consumers: list[Subscribe], dest: str) -> bool:
    """Whether a durable subscription was the same from its first consumer to its last."""
    return all(one.result == "ok" and one.dest == dest and not one.selector and not one.no_local for one in consumers)
