"""Negotiation: what a raw peer and the broker have agreed on, as far as an observer can know, and what follows.

* OpenWire: both take the smaller read period R and the smaller initial delay D; a third of R is the write period W.
  What the broker offers is what the peer heard, else what is declared.
* STOMP: each direction has the slower of promise and wish, none if one of them is 0. *classic* takes the numbers as
  they are, *documented* reads with twice the client's period and writes twice in its own; a grace that is set,
  or documented, replaces the factor of the first.
* A silent peer is closed, after its last byte or the end of D: *documented* in [R, 1.1 R], *classic* in [2R, 3R], but
  [R, 3R] if what came last completed no command (part of a frame; STOMP's newline). Unknown: from least to greatest.
* What it says itself is never more than two write periods apart, and the time that writing takes.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import ConnectorSpec, DeclaredSpec, MonitorSpec
from brokerproof.conformance.experiment.history import Probe
from brokerproof.conformance.facts.spans import NS_PER_MS

#: What a broker offers on OpenWire links unless it is told otherwise.
DEFAULT_OFFER = MonitorSpec(30_000, 10_000)
#: How long it may take to write what is due.
WRITING_NS = 5 * NS_PER_MS
DOCUMENTED = "documented"
CLASSIC = "classic"


class Agreement:
    """One connection's. ``read_ns`` and ``write_ns`` 0: no monitor, no keep-alives of the broker's."""

    def __init__(
        self, generation: str, read_ms: int, write_ms: int, delay_ms: int, *, lenient_ms: int = 0, stomp: bool = False
    ) -> None:
        """``lenient_ms``: the read period of the more patient generation, if nobody knows which one it is."""
        self.read_ns = read_ms * NS_PER_MS
        self.write_ns = write_ms * NS_PER_MS
        self.delay_ns = delay_ms * NS_PER_MS
        #: STOMP itself knows no initial delay, the known generations do.
        self.delay_low_ns = self.delay_ns if generation or not stomp else 0
        #: Whether ``write_ns`` is what this broker goes by, not merely what it promised.
        self.sure_write = generation in {DOCUMENTED, CLASSIC}
        self._least_ns = self.read_ns
        self._whole_ns = 2 * self.read_ns if generation == CLASSIC else self.read_ns
        self.high_ns = (
            self.read_ns + self.read_ns // 10
            if generation == DOCUMENTED
            else 3 * max(self.read_ns, lenient_ms * NS_PER_MS)
        )
        self.own_gap_ns = 2 * self.write_ns + WRITING_NS

    def low_ns(self, says: str) -> int:
        """The shortest silence after which the broker may hang up; ``says``: what came last."""
        return self._whole_ns if says in {"nothing", "asks", "frames"} else self._least_ns


def agreement(event: Probe, declared: DeclaredSpec, connector: ConnectorSpec, generation: str) -> Agreement | None:
    """What follows from a good hello; None: the broker's answer cannot be understood."""
    if event.said.via == "openwire":
        mine = declared.monitor_offer or DEFAULT_OFFER
        if event.heard.offer_ms is not None:
            mine = MonitorSpec(*event.heard.offer_ms)
        read_ms = min(mine.read_ms, event.said.offer_ms[0])
        if read_ms <= 0:
            return Agreement(generation, 0, 0, 0)
        write_ms = read_ms // 3 if read_ms > 3 else read_ms
        return Agreement(generation, read_ms, write_ms, min(mine.initial_delay_ms, event.said.offer_ms[1]))
    parts = event.heard.heart_beat.split(",")
    if event.heard.heart_beat and (len(parts) != 2 or not all(part.strip().lstrip("-").isdecimal() for part in parts)):
        return None
    serves_ms, asks_ms = (int(part) for part in parts) if event.heard.heart_beat else (0, 0)
    grace = connector.heart_beat_grace if connector.heart_beat_grace > 1 else declared.heart_beat_grace or 0
    return _stomp(generation, slower(event.said.offer_ms[0], asks_ms), slower(event.said.offer_ms[1], serves_ms), grace)


def slower(one_ms: int, other_ms: int) -> int:
    """The STOMP period of promise and wish; 0: there are no heart-beats in that direction."""
    return max(one_ms, other_ms) if one_ms > 0 and other_ms > 0 else 0


def agreed(monitor: MonitorSpec, theirs_ms: int) -> MonitorSpec | None:
    """A STOMP monitor, whose period is its initial delay, after the other end has said its own; None: there is none."""
    own_ms = monitor.initial_delay_ms
    period_ms = slower(own_ms, theirs_ms)
    return MonitorSpec(monitor.read_ms * period_ms // own_ms, period_ms) if period_ms else None


def _stomp(generation: str, incoming_ms: int, outgoing_ms: int, grace: float) -> Agreement:
    delay_ms = min(incoming_ms, outgoing_ms)
    factor = 2 if generation == DOCUMENTED else 1
    read_ms = int(incoming_ms * grace) if grace else incoming_ms * factor
    write_ms = (outgoing_ms + factor - 1) // factor
    return Agreement(
        generation, read_ms, write_ms, delay_ms, lenient_ms=0 if generation or grace else 2 * read_ms, stomp=True
    )
