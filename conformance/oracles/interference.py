"""Interference: judges MEM-021, whether a consumer gets its message in time whatever other destinations keep in memory.

Model (seed 002). The fast consumer of one destination must not wait for the slow consumers, or for the idle backlogs,
of others. The bound is the declared lateness: what a broker may take on an idle machine, memory short or not.

Analysis. A message is sent to a queue on which nothing else can be, and a consumer of which waits with a free window
(``promptness.py``), while messages that other queues certainly keep fill half of the broker's limit or more. It must
arrive by the end of its send plus the declared lateness.

Not checked: messages with a delay, an expiration or in a transaction; a second message behind an unsettled first one,
which may have to wait until that is settled; topics.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_topic
from brokerproof.conformance.experiment.history import Event, Send
from brokerproof.conformance.oracles.base import NS_PER_MS
from brokerproof.conformance.oracles.books import OVERHEAD_MIN_BYTES
from brokerproof.conformance.oracles.inference import PRESSURE_PERCENT, ms
from brokerproof.conformance.oracles.life import NEVER_NS, Life
from brokerproof.conformance.oracles.promptness import Promptness
from brokerproof.conformance.oracles.stage import SceneOracle
from brokerproof.conformance.oracles.wall import WallClocks

REQUIREMENT: Final = "MEM-021"


class Stay:
    """For how long, at least, a message was on its queue."""

    __slots__ = ("dest", "size_bytes", "t0", "t1")

    def __init__(self, life: Life) -> None:
        self.dest = life.send.dest
        self.size_bytes = life.send.size + OVERHEAD_MIN_BYTES
        self.t0 = life.send.t1
        ends = [event.t0 for event in (*life.acks, *life.nacks, *life.discards, *life.letters)]
        #: An automatic acknowledgement is nowhere seen, so the first arrival may have been the end.
        self.t1 = min([*ends, *(arrival.t0 for arrival in life.arrivals)], default=NEVER_NS)


class InterferenceOracle(SceneOracle):
    """The bound."""

    name = "interference"
    requirements = (REQUIREMENT,)
    faults = ("stall",)
    looks = (Send,)

    def __init__(self, clocks: WallClocks) -> None:
        super().__init__(clocks)
        self._sent_bytes = 0

    def feed(self, event: Event) -> None:
        super().feed(event)
        if isinstance(event, Send):
            self._sent_bytes += event.size + OVERHEAD_MIN_BYTES

    def conclude(self) -> None:
        declared = self._header.declared
        limit = declared.memory_limit_bytes
        if limit <= 0 or self._sent_bytes * 100 < limit * PRESSURE_PERCENT:
            return
        scene = self._stage.scene()
        if scene.broken or scene.lens.restarted or scene.lens.limited:
            return
        promptness = Promptness(scene, declared.lateness_ms * NS_PER_MS, whatever_memory=True)
        stays = [Stay(life) for life in scene.lives.values() if _stays(life.send)]
        for dest, lives in scene.dests.items():
            if dest == DEAD_LETTERS or is_topic(dest):
                continue
            others = [stay for stay in stays if stay.dest != dest]
            for life in lives:
                if _plain(life.send):
                    self._judge(life, promptness, others, limit)

    def _judge(self, life: Life, promptness: Promptness, others: list[Stay], limit: int) -> None:
        send = life.send
        until_ns = send.t1 + promptness.lateness_ns
        kept = sum(stay.size_bytes for stay in others if stay.t0 <= send.t0 and stay.t1 > until_ns)
        if kept * 100 < limit * PRESSURE_PERCENT or promptness.most(send.dest, send.t0, until_ns) > 1:
            return
        waiting = promptness.waiting(life, send.t0, send.t1)
        if not waiting:
            return
        low, high = promptness.arrived_ns(life, waiting)
        claim = self.claims[REQUIREMENT]
        if low > until_ns:
            arrived = "never arrived" if low == NEVER_NS else f"arrived at {ms(low)}"
            text = (
                f"{send.message} was accepted on {send.dest} at {ms(send.t1)} and {arrived}, though consumer "
                f"{waiting[0].subscribe.consumer} waited for it; {ms(promptness.lateness_ns)} later other queues still "
                f"kept at least {kept} of the broker's {limit} bytes"
            )
            slack_ns = None if low == NEVER_NS else until_ns - low
            claim.fail(text, [send.seq], outcome="late", slack_ns=slack_ns)
        elif high <= until_ns:
            full = kept * 100 >= limit * 70
            situation = "other queues kept 70 % or more" if full else "other queues kept half or more"
            claim.hold(situation, slack_ns=until_ns - high, outcome="in-time")
        else:
            claim.doubt(f"{send.message} arrived between {ms(low)} and {ms(high)}", [send.seq], high - until_ns)


def _stays(send: Send) -> bool:
    """Nothing but a consumer or an operator takes it from its queue."""
    return not is_topic(send.dest) and _plain(send)


def _plain(send: Send) -> bool:
    return send.result == "ok" and send.persistent and send.tx is None and not send.timed()
