"""Any broker at hand, with every host of a program played by brokerproof's own OpenWire client.

Rules
* A STOMP host becomes a JMS host that does not check expirations, as STOMP clients do not. A JMS host stays what it is.
* Everything else is the broker's own adapter's business.
* It is a column of its own. What is known of the broker is known here, too, but need not show unless its entry names
  this client (``known/``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.agents.kinds import JMS, OPENWIRE
from brokerproof.conformance.brokers.base import Access, Adapter, Endpoint, Operated
from brokerproof.conformance.experiment.results import THROUGH_OPENWIRE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.chaos.clocks import ClockReading
    from brokerproof.chaos.processes import Process
    from brokerproof.chaos.rates import Rate
    from brokerproof.conformance.brokers.base import Laboratory
    from brokerproof.conformance.brokers.translation import Names
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.known import Known
    from brokerproof.conformance.requirements.catalogue import Requirement

#: What the client can be asked for, whatever the broker's own adapter says: JMS consumers choose how they are served.
OFFERED = ("expiry-check", "nack", "pull", "sync-dispatch")


class ThroughEndpoint(Endpoint):
    """The same endpoint, played by another library."""

    def __init__(self, inner: Endpoint, label: str) -> None:
        self._inner = inner
        self.label = label
        self.clock_file = inner.clock_file

    def library(self, via: str) -> str:
        # The drain and raw peers are not cast: they speak what they always do.
        return OPENWIRE if via == JMS else via

    def words(self, via: str) -> Sequence[str]:
        return () if self.library(via) == OPENWIRE else self._inner.words(via)

    def blamed(self, line: str, text: str) -> Exception:
        return self._inner.blamed(line, text)

    def port(self, via: str) -> int:
        return self._inner.port(via)

    def access(self, via: str) -> Access:
        return self._inner.access(via)

    def counters(self, dest: str | None) -> dict[str, int] | None:
        return self._inner.counters(dest)

    def read_clock(self) -> ClockReading | None:
        return self._inner.read_clock()

    def declare(self, program: Program, names: Names) -> None:
        self._inner.declare(program, names)

    def operate(self, op: str, dest: str, to: str, limit_bytes: int = 0) -> Operated | None:
        return self._inner.operate(op, dest, to, limit_bytes)

    def restart(self, how: str) -> dict[str, int] | None:
        return self._inner.restart(how)

    def process(self) -> Process | None:
        return self._inner.process()

    def closings(self) -> list[str]:
        return self._inner.closings()

    def reports(self, port: int) -> int | None:
        return self._inner.reports(port)

    def resources(self) -> dict[str, int] | None:
        return self._inner.resources()

    def stand_still(self, *, paused: bool) -> bool:
        return self._inner.stand_still(paused=paused)

    def dispose(self, *, spoilt: bool = False) -> None:
        self._inner.dispose(spoilt=spoilt)


class ThroughOpenWire(Adapter):
    """See the module's header."""

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner
        self.name = inner.name
        self.label = inner.label + THROUGH_OPENWIRE
        self.workers = inner.workers
        self.lanes, self.shares = inner.lanes, inner.shares
        self.alone, self.lateness_ms = inner.alone, inner.lateness_ms
        self.heart_beat_grace, self.delay_begins = inner.heart_beat_grace, inner.delay_begins
        self.speed, self.separator = inner.speed, inner.separator

    def about(self) -> dict[str, str]:
        return self._inner.about()

    def capabilities(self) -> list[str]:
        return sorted({*self._inner.capabilities(), *OFFERED})

    def cast(self, program: Program) -> Program:
        hosts = [
            msgspec.structs.replace(host, via=JMS, expiry_check=False, version="")
            if host.role == "client" and host.via != JMS
            else host
            for host in program.hosts
        ]
        # What the broker claims, its own adapter knows; what this client can do is not what that one's hosts can.
        return msgspec.structs.replace(program, hosts=hosts, broker=self._inner.cast(program).broker)

    def refusal(self, program: Program) -> str:
        return self._inner.refusal(program)

    def effective(self, program: Program) -> Program:
        return self._inner.effective(program)

    def owns(self, program: Program) -> bool:
        return self._inner.owns(program)

    def rate(self, program: Program) -> Rate:
        return self._inner.rate(program)

    def sharing_key(self, program: Program) -> str:
        return self._inner.sharing_key(program)

    def lines(self) -> dict[str, str]:
        return self._inner.lines()

    def unpromised(self, requirement: Requirement) -> str:
        return self._inner.unpromised(requirement)

    def unclaimed(self, requirement: Requirement) -> str:
        return self._inner.unclaimed(requirement)

    def known(self) -> Known:
        return self._inner.known().through_openwire()

    def open(self, program: Program, laboratory: Laboratory) -> Endpoint:
        return ThroughEndpoint(self._inner.open(program, laboratory), self.label)

    def close(self) -> None:
        self._inner.close()
