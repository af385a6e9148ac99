"""A client's path to the broker: straight, or through a proxy whose faults are proven by counting bytes at both ends.

Rules
* A ``fault`` event of a stall is recorded when the stall is asked for; its evidence is known only when bytes were
  offered and did not pass, so it is filled in when the stall ends. No bytes, no evidence, and every verdict that needs
  the stall is *not run*.
* ``resume`` is proven by bytes that leave the line again, as many as were held back.
* The tap at the broker's end sees a connection end there while the client, behind a stall, still knows nothing: that is
  the broker's ``closed``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerproof.chaos.links import LinkEnd, LinkProxy, Toward
    from brokerproof.conformance.experiment.history import Fault

NS_PER_MS = 1_000_000
#: How long held bytes may take to come through after a resume.
_RESUME_MS = 500


class Path:
    """``proxy`` None: straight to the broker, which no fault can touch."""

    def __init__(self, proxy: LinkProxy | None) -> None:
        self.proxy = proxy
        #: The stall in force, whose evidence is still to come.
        self.stalled: Fault | None = None
        self._ends_seen = 0

    def port(self, broker_port: int) -> int:
        """Where the client connects."""
        return broker_port if self.proxy is None else self.proxy.port

    def stall(self, toward: Toward) -> None:
        """Hold bytes back."""
        if self.proxy is not None:
            self.proxy.stall(toward)

    def prove_stall(self) -> None:
        """Look now whether bytes were offered and held, while the stall lasts."""
        if self.proxy is not None and self.stalled is not None:
            evidence = self.proxy.evidence()
            self.stalled.evidence = None if evidence is None else evidence.as_dict()

    def resume(self, *, alive: bool) -> dict[str, int] | None:
        """Let them through; the evidence that they came, or None. Fills in the stall's own evidence.

        ``alive`` False: the client has given its connection up, so nothing need come through any more.
        """
        stalled, self.stalled = self.stalled, None
        if self.proxy is None:
            return None
        evidence = self.proxy.resume()
        if evidence is None:
            return None
        if stalled is not None:
            stalled.evidence = evidence.as_dict()
        if not alive:
            return {"held": evidence.bytes_in, "connections": 0}
        return _passed(self.proxy, evidence.toward, evidence.bytes_in)

    def broker_ends(self) -> list[LinkEnd]:
        """Connections that the broker ended since the last call."""
        if self.proxy is None:
            return []
        ends = self.proxy.ends()
        new = ends[self._ends_seen :]
        self._ends_seen = len(ends)
        return [end for end in new if end.at == "broker" and end.who == "broker"]

    def idle_ns(self, at_ns: int) -> int | None:
        """How long the broker had received nothing at an instant; None where nobody counted."""
        if self.proxy is None:
            return None
        last_ns = self.proxy.last_passed_ns("broker", at_ns)
        return None if last_ns is None else at_ns - last_ns

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
