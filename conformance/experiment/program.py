"""Program: a whole experiment as plain data, ``brokerproof/program/2`` (contracts.md section 1, docs/program.md).

Rules:

* A program replays from its file alone: broker settings, hosts with their clocks, links, destinations and steps.
* References inside steps (``host``, ``dest``, ``link``, ``consumer``, ``upto``) are ordinals, taken modulo what exists
  and fits the step, never names; so any subset of the steps is still a program. Shrinking depends on this.
* Unknown fields are refused, with the path at which they stand: a misspelt setting must not silently do nothing.

The durable artefact of a failure is this file, not a seed of Hypothesis or of ours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from brokerproof.conformance.experiment.configuration import (
    BrokerSpec,
    DeclaredSpec,
    HostSpec,
    LinkSpec,
    effective_monitor,
)
from brokerproof.conformance.experiment.destinations import Destination, is_pattern, queues
from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.conformance.experiment.schemas import schema_of
from brokerproof.conformance.experiment.steps import REGISTRY, AnyStep, ClientStep, Parallel
from brokerproof.conformance.experiment.steps.parallel import each, hosts_of
from brokerproof.conformance.experiment.versions import PROGRAM_1, program_2

FORMAT = "brokerproof/program/2"
#: More steps than this are refused: a mistake in a generator should not fill the disk.
STEPS_MAX = 100_000
#: The largest number of hosts, links or destinations.
NAMES_MAX = 64


class ProgramError(ValueError):
    """A program cannot be used. The text shows where, the value and the remedy."""

    exit_code = 2


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The experiment. ``destinations`` are those that ``dest`` ordinals choose from."""

    format: str
    broker: BrokerSpec
    hosts: list[HostSpec]
    links: list[LinkSpec] = []
    destinations: list[Destination] = msgspec.field(default_factory=lambda: queues("q0"))
    steps: list[AnyStep] = []

    def with_steps(self, steps: list[AnyStep]) -> Program:
        """The same experiment with other steps."""
        return msgspec.structs.replace(self, steps=steps)

    def each_step(self) -> Iterator[AnyStep]:
        """Every single step, those that are done at once one by one."""
        return each(self.steps)

    def encode(self) -> bytes:
        """Canonical JSON: the same program gives the same bytes."""
        return msgspec.json.encode(self)

    def digest(self) -> str:
        """``sha256:`` of the canonical JSON; how histories and reports name this program."""
        return "sha256:" + hashlib.sha256(self.encode()).hexdigest()

    def clients(self) -> list[HostSpec]:
        """The hosts that are clients, in order."""
        return [host for host in self.hosts if host.role == "client"]

    def broker_host(self) -> HostSpec:
        """The host on which the broker runs; of several, the first."""
        return next(host for host in self.hosts if host.role == "broker")

    def brokers(self) -> list[HostSpec]:
        """The hosts on which brokers run, in order."""
        return [host for host in self.hosts if host.role == "broker"]

    def bridges(self) -> list[HostSpec]:
        """The hosts that are bridges between brokers, in order."""
        return [host for host in self.hosts if host.role == "bridge"]

    def at(self, host: HostSpec) -> str:
        """The broker that a client uses, or beside which a bridge runs."""
        return host.at or self.broker_host().name

    def seen_from(self, broker: HostSpec) -> Program:
        """The same program with another of its brokers as the first."""
        return msgspec.structs.replace(self, hosts=[broker, *(host for host in self.hosts if host is not broker)])

    def link_of(self, client: str) -> LinkSpec:
        """The link of a client; the default link where the program names none."""
        return next((link for link in self.links if link.client == client), LinkSpec(client))

    def declared(self) -> DeclaredSpec:
        """What a history of this program says about the broker."""
        broker = self.broker
        return DeclaredSpec(
            **{name: getattr(broker, name) for name in BrokerSpec.__struct_fields__},
            bytes_per_second={link.client: link.rate() for link in self.links if link.rate()},
            jitter_us={link.client: link.jitter_us for link in self.links if link.jitter_us},
            zones={host.name: host.clock.zone_hours for host in self.hosts if host.clock.zone_hours},
            monitor={
                host.name: effective
                for host in self.clients()
                if (
                    effective := effective_monitor(
                        self.link_of(host.name).monitor, host.via, self.monitor_generation(), broker.monitor_offer
                    )
                )
                is not None
            },
        )

    def monitor_generation(self) -> str:
        """The generation of inactivity monitor that the program asks for."""
        return self.broker.generation.get("monitor", "documented")


_decoder = msgspec.json.Decoder(Program)


def parse_program(data: bytes, name: str = "program") -> Program:
    """Parse and check a program. Raises ``ProgramError``."""
    try:
        fields = msgspec.json.decode(data)
        is_old = isinstance(fields, dict) and fields.get("format") == PROGRAM_1
        program = msgspec.convert(program_2(fields), Program) if is_old else _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, TypeError) as error:
        raise ProgramError(f"{name}: not a {FORMAT} program: {error}{_remedy(str(error))}") from None
    check_program(program, name)
    return program


def _remedy(error: str) -> str:
    """What to write instead of a step that does not exist."""
    found = re.fullmatch(r"Invalid value '(.*)' - at `\$\.steps\[\d+\](\.of\[\d+\]\[\d+\])?\.do`", error)
    if found is None:
        return ""
    known = sorted(str(step.__struct_config__.tag) for step in (get_args(ClientStep) if found[2] else REGISTRY))
    what = "what several hosts do at once" if found[2] else "a step"
    return f"; {suggestion(found[1], known)}{what} is one of {', '.join(known)}"


def read_program(path: Path) -> Program:
    """Read a program file. Raises ``ProgramError``, also for a file that cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ProgramError(f"{path}: cannot be read ({error.strerror}); give the path of a program.json") from None
    return parse_program(data, str(path))


def check_program(program: Program, name: str) -> None:
    """What types cannot say. Raises ``ProgramError``."""
    if program.format != FORMAT:
        raise ProgramError(f"{name}: format is {program.format!r}; this release reads {FORMAT!r} and 1")
    names = [host.name for host in program.hosts]
    brokers = [host.name for host in program.brokers()]
    if not brokers:
        raise ProgramError(f"{name}: has no host with role 'broker'; one is needed, or several with bridges")
    if not program.clients():
        raise ProgramError(f"{name}: has no host with role 'client'; add at least one")
    if len(set(names)) != len(names) or "" in names:
        raise ProgramError(f"{name}: host names {names} must be different and not empty")
    for link in program.links:
        if link.client not in names or link.client in brokers:
            raise ProgramError(
                f"{name}: a link names the client {link.client!r}; clients are {[h.name for h in program.clients()]}"
            )
    _check_users(program, name)
    _check_versions(program, name)
    _check_destinations(program, name)
    _check_network(program, name)
    if max(len(names), len(program.links), len(program.destinations)) > NAMES_MAX:
        raise ProgramError(f"{name}: more than {NAMES_MAX} hosts, links or destinations")
    count = sum(1 for _ in program.each_step())
    if count > STEPS_MAX:
        raise ProgramError(f"{name}: has {count} steps; at most {STEPS_MAX} are accepted")
    for number, step in enumerate(program.steps):
        for place, steps in enumerate(step.of if isinstance(step, Parallel) else ()):
            if len(hosts_of(steps)) > 1:
                raise ProgramError(
                    f"{name}: the steps of one sequence are one host's: those at `$.steps[{number}].of[{place}]` name "
                    f"the hosts {hosts_of(steps)}; give each host a sequence of its own"
                )


def _check_network(program: Program, name: str) -> None:
    """Who is where, if there are several brokers; and messages must not go round in circles."""
    brokers = [host.name for host in program.brokers()]
    reached: dict[str, list[str]] = {broker: [] for broker in brokers}
    for host in program.hosts:
        known = {"broker": [""], "client": ["", *brokers], "bridge": ["", *brokers]}[host.role]
        if host.at not in known or host.to not in (brokers if host.role == "bridge" else [""]):
            raise ProgramError(
                f"{name}: host {host.name!r} is a {host.role} at {host.at!r} to {host.to!r}; clients are at one of the "
                f"brokers {brokers}, bridges go to another one as well"
            )
        if host.role == "bridge":
            if program.at(host) in (host.to, *_beyond(reached, host.to)):
                raise ProgramError(f"{name}: bridge {host.name!r} closes a circle of brokers; leave it out")
            reached[program.at(host)].append(host.to)


def _beyond(reached: dict[str, list[str]], broker: str) -> list[str]:
    """The brokers that messages get to from one of them, over the bridges so far."""
    found = list(reached[broker])
    for other in found:
        found += [one for one in reached[other] if one not in found]
    return found


def _check_users(program: Program, name: str) -> None:
    for host in program.hosts:
        if host.user and (host.role != "client" or not re.fullmatch(r"[\w.-]+", host.user)):
            raise ProgramError(f"{name}: {host.name} has user {host.user!r}; clients have, of letters, digits and _.-")
        if host.user and program.broker.logins:
            raise ProgramError(f"{name}: {host.name} has user {host.user!r}; where `logins` is true, all have the same")


def _check_versions(program: Program, name: str) -> None:
    for host in program.hosts:
        if host.version and (host.role != "client" or host.via != "stomp"):
            raise ProgramError(f"{name}: {host.name} has version {host.version!r}, which is for clients via STOMP")
        if host.version == "1.0" and program.link_of(host.name).monitor is not None:
            raise ProgramError(
                f"{name}: {host.name} offers STOMP 1.0, which has no heart-beats; take its link's monitor away"
            )


def _check_destinations(program: Program, name: str) -> None:
    dests = [dest.name for dest in program.destinations]
    if not dests or len(set(dests)) != len(dests):
        raise ProgramError(f"{name}: destinations are {dests}; name at least one, each once")
    clients = [host.name for host in program.clients()]
    for dest in program.destinations:
        if not dest.name or is_pattern(dest.name):
            raise ProgramError(
                f"{name}: a destination is called {dest.name!r}, which stands for all of a kind, or none"
            )
        if bool(dest.of) != (dest.kind in {"composite", "virtual"}) and dest.kind != "virtual":
            raise ProgramError(
                f"{name}: {dest.name} is a {dest.kind} of {len(dest.of)}; only what is composite or "
                "virtual has parts, and what is composite has some"
            )
        if (dest.kind == "temporary") != (dest.host in clients):
            raise ProgramError(
                f"{name}: {dest.name} is a {dest.kind} of host {dest.host!r}; a temporary queue belongs "
                f"to a client ({clients}), and nothing else does"
            )


def json_schema() -> dict[str, Any]:
    """JSON Schema of a program file, written to docs/program.schema.json."""
    return schema_of(Program)
