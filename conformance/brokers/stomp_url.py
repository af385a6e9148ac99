"""Any running STOMP broker that follows ActiveMQ's header conventions, known by its URL alone.

Rules
* What it can do is found by probing (``probing.py``), once, and never by its name.
* It cannot be configured, restarted or put on another clock: programs that need that are *not applicable*, steps of its
  clock are skipped. It has no figures.
* What is unknown about it is declared in the way that promises least: no sweep, no dead letters for volatile messages.

Known exception: only loopback addresses; a broker elsewhere needs a tunnel, because links and clocks are built here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from brokerproof.chaos.ports import LOOPBACK
from brokerproof.conformance.brokers.base import Adapter, Endpoint, NotApplicableError
from brokerproof.conformance.brokers.probing import Found, ProbeError, probe, read_clock
from brokerproof.conformance.experiment.configuration import BrokerSpec, PolicySpec, TimeStampingSpec
from brokerproof.conformance.experiment.exits import SuiteProblem, UsageError

if TYPE_CHECKING:
    from brokerproof.chaos.clocks import ClockReading
    from brokerproof.conformance.brokers.base import Laboratory
    from brokerproof.conformance.experiment.program import Program

DEFAULT_PORT = 61613


class StompUrlEndpoint(Endpoint):
    """The broker at the URL, as it is."""

    def __init__(self, label: str, port: int) -> None:
        self.label = label
        self._port = port

    def port(self, via: str) -> int:
        if via != "stomp":
            raise NotApplicableError(f"{self.label} is reached over STOMP only, not by {via} clients (transport)")
        return self._port

    def counters(self, dest: str | None) -> dict[str, int] | None:
        del dest
        return None

    def read_clock(self) -> ClockReading | None:
        return read_clock(LOOPBACK, self._port)

    def dispose(self, *, spoilt: bool = False) -> None:
        """Nothing of it is ours."""


class StompUrlAdapter(Adapter):
    """``url``: ``stomp://127.0.0.1:PORT``."""

    name = "stomp"

    def __init__(self, url: str) -> None:
        """Raises ``UsageError`` for a URL that cannot be used."""
        self.url = url
        self._port = _port_of(url)
        self._found: Found | None = None
        self.label = f"stomp:{self._port}"

    def capabilities(self) -> list[str]:
        return list(self.found().capabilities)

    def found(self) -> Found:
        """What the probes found; they are made once. Raises ``SuiteProblem`` when no STOMP broker answers."""
        if self._found is None:
            try:
                self._found = probe(LOOPBACK, self._port)
            except (OSError, ProbeError) as error:
                raise SuiteProblem(f"{self.url}: no STOMP broker answers there ({error}); is it running?") from None
        return self._found

    def refusal(self, program: Program) -> str:
        jms = [host.name for host in program.clients() if host.via != "stomp"]
        if jms:
            return f"{self.url} is reached over STOMP only, and {', '.join(jms)} want JMS (transport)"
        if program.broker_host().clock.offset_ms or program.broker_host().clock.drift_ppm:
            return f"the clock of the broker at {self.url} cannot be skewed"
        lacking = _lacking(program.broker, stamps=self.found().stamps)
        if lacking:
            return f"the broker at {self.url} cannot be configured as the program asks: {', '.join(lacking)}"
        return ""

    def effective(self, program: Program) -> Program:
        least = BrokerSpec(
            generation={},
            timestamping=TimeStampingSpec() if self.found().stamps else None,
            policies=[PolicySpec(expire_period_ms=0)],
        )
        return msgspec.structs.replace(program, broker=least)

    def open(self, program: Program, laboratory: Laboratory) -> Endpoint:
        del program, laboratory
        self.found()
        return StompUrlEndpoint(self.label, self._port)


def _lacking(wanted: BrokerSpec, *, stamps: bool) -> list[str]:
    """Settings that a program asks for and a broker as it comes does not have, by name. Nobody relies on a sweep, and
    generations are not asked for but told apart.
    """
    plugin = TimeStampingSpec() if stamps else None
    alike = msgspec.structs.replace(BrokerSpec(), timestamping=plugin, generation=wanted.generation, policies=[])
    found = _differing(msgspec.structs.replace(wanted, policies=[]), alike)
    for entry in wanted.policies:
        plain = PolicySpec(entry.match, entry.expire_period_ms)
        found += [f"{name} of {entry.match}" for name in _differing(entry, plain)]
    return found


def _differing(one: msgspec.Struct, other: msgspec.Struct) -> list[str]:
    return [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]


def _port_of(url: str) -> int:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    except ValueError:
        raise UsageError(f"--url {url!r} is not a URL; give stomp://127.0.0.1:PORT") from None
    if parts.scheme not in {"stomp", "tcp"} or not host:
        raise UsageError(f"--url {url!r} is not a STOMP address; give stomp://127.0.0.1:PORT")
    if host not in {"localhost", LOOPBACK}:
        raise UsageError(f"--url {url!r} is not on {LOOPBACK}; a broker elsewhere needs a tunnel to this machine")
    return port
