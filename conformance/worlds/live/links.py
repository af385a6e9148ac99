"""A client's path to the broker: straight, or through a proxy whose faults are proven by counting bytes at both ends.

Rules
* The evidence of a stall is that bytes were offered and did not pass; it is known when the stall ends. No bytes, no
  evidence, and every verdict that needs the stall is *not run*.
* ``resume`` is proven by bytes that leave the line again, as many as were held back.
* The tap at the broker's end sees a connection end there while the client, behind a stall, still knows nothing: that is
  the broker's ``closed``. The end of a connection that the client had given up before it made another says nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerproof.chaos.links import LinkEnd, LinkProxy, SeverEvidence, Toward
    from brokerproof.conformance.experiment.configuration import LinkSpec
    from brokerproof.conformance.experiment.operations import Reset

NS_PER_MS = 1_000_000
#: How long held bytes may take to come through after a resume.
_RESUME_MS = 500
#: What reached a broker's socket so shortly before it closed a link, it may have closed without having read.
_UNREAD_MS = 100
#: By what part of the jitter something must have been later than something else to prove it.
JITTER_PART = 4


class Path:
    """``proxy`` None: straight to the broker, which no fault can touch."""

    def __init__(self, proxy: LinkProxy | None) -> None:
        self.proxy = proxy
        self._ends_seen = 0
        self._given_up = 0  # the last connection that the client had given up
        self._given_up_ns = 0
        self._severing: Reset | None = None

    def port(self, broker_port: int) -> int:
        """Where the client connects."""
        return broker_port if self.proxy is None else self.proxy.port

    def stall(self, toward: Toward) -> None:
        """Hold bytes back."""
        self.spare()
        if self.proxy is not None:
            self.proxy.stall(toward)

    def resume(self, *, alive: bool) -> tuple[dict[str, int] | None, dict[str, int] | None]:
        """Let them through; the evidence of the stall, and that they came, each None without.

        ``alive`` False: the client has given its connection up, so nothing need come through any more.
        """
        evidence = None if self.proxy is None else self.proxy.resume()
        if self.proxy is None or evidence is None:
            return None, None
        if not alive:
            return evidence.as_dict(), {"held": evidence.bytes_in, "connections": 0}
        return evidence.as_dict(), _passed(self.proxy, evidence.toward, evidence.bytes_in)

    def evidence_of(self, mode: str, link: LinkSpec) -> dict[str, int] | None:
        """How bytes really passed a line of such a shape; None: as they would have passed any."""
        if self.proxy is None:
            return None
        seen = self.proxy.crossing()
        if mode == "slice":
            cut = seen.pieces_out > seen.pieces_in
            return {"pieces_in": seen.pieces_in, "pieces_out": seen.pieces_out} if cut else None
        least_us, most_us = seen.least_us, seen.most_us
        if least_us is None or most_us is None or most_us - least_us < link.jitter_us // JITTER_PART:
            return None
        return {"least_us": least_us, "most_us": most_us}

    def sever(self, asked: Reset) -> None:
        """The network will end the present connection."""
        if self.proxy is not None:
            self.proxy.sever(asked.toward, asked.after_bytes)  # type: ignore[arg-type]  # the step knows two
            self._severing = asked

    @property
    def half_severed(self) -> bool:
        """Whether the network's end of the connection has been seen at one end only so far."""
        return self.proxy is not None and self._severing is not None and self.proxy.half_severed

    def severed(self) -> tuple[Reset, SeverEvidence] | None:
        """What was asked for, and that it has happened, once."""
        if self.proxy is None or self._severing is None:
            return None
        asked, evidence = self._severing, self.proxy.severed()
        if evidence is None:
            return None
        self.spare()
        return asked, evidence

    def spare(self) -> None:
        """What was asked for is not wanted any more: there is to be another connection."""
        if self.proxy is not None and self._severing is not None:
            self._severing = None
            self.proxy.spare()

    def traffic(self, toward: str) -> tuple[int, int]:
        """Bytes that have entered the line in a direction, and that have left it."""
        assert self.proxy is not None, "it was looked for"
        return self.proxy.traffic().of(toward)  # type: ignore[arg-type]  # the step knows two

    def connects(self) -> None:
        """The client is to make another connection: it has none, or has given up those that it made."""
        if self.proxy is not None:
            self._given_up, self._given_up_ns = self.proxy.connections, time.monotonic_ns()

    def broker_ends(self) -> list[LinkEnd]:
        """Connections that the broker ended since the last call, without those that the client had given up."""
        if self.proxy is None:
            return []
        ends = self.proxy.ends()
        new = ends[self._ends_seen :]
        self._ends_seen = len(ends)
        return [end for end in new if end.at == "broker" and end.who == "broker" and not self._was_given_up(end)]

    def _was_given_up(self, end: LinkEnd) -> bool:
        return end.connection <= self._given_up and end.at_ns >= self._given_up_ns

    def passed(self) -> int:
        """How many bytes have come out of it so far, at either end: what a client wrote may be on its way for long."""
        return 0 if self.proxy is None else self.proxy.traffic().of("both")[1]

    def idle_ns(self, end: LinkEnd) -> int | None:
        """How long the broker had received nothing of a connection when that ended, or shortly before; None where
        nobody counted.
        """
        return None if self.proxy is None else self.proxy.idle_ns(end, within_ns=_UNREAD_MS * NS_PER_MS)

    def close(self) -> None:
        """Take the proxy down."""
        if self.proxy is not None:
            self.proxy.close()


def _passed(proxy: LinkProxy, toward: Toward, held: int) -> dict[str, int] | None:
    """Wait until what entered the line has left it; None if it does not in time."""
    deadline_ns = time.monotonic_ns() + _RESUME_MS * NS_PER_MS
    while True:
        entered, left = proxy.traffic().of(toward)
        if left >= entered:
            return {"held": held, "bytes_in": entered, "bytes_out": left}
        if time.monotonic_ns() > deadline_ns:
            return None
        time.sleep(0.001)
