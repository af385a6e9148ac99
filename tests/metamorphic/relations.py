"""What must not change a verdict: other names, and all clocks set forward by the same time."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from brokerproof.conformance.experiment.configuration import HostSpec, PolicySpec
from brokerproof.conformance.experiment.destinations import ADVISORIES, DEAD_LETTERS, Destination
from brokerproof.conformance.experiment.policies import PREFIXES
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import Operate

#: Eleven days and a bit: no multiple of any period.
SHIFT_MS: Final = 987_654_321


def clocks_shifted(program: Program) -> Program:
    """All clocks are set forward."""
    return msgspec.structs.replace(program, hosts=[_shifted(host) for host in program.hosts])


def _shifted(host: HostSpec) -> HostSpec:
    clock = msgspec.structs.replace(host.clock, offset_ms=host.clock.offset_ms + SHIFT_MS)
    return msgspec.structs.replace(host, clock=clock)


def renamed(program: Program) -> Program:
    """Destinations and hosts have names that say nothing, and sort the other way round."""
    hosts = {host.name: f"host-{99 - number}" for number, host in enumerate(program.hosts)}
    names: dict[str, str] = {}
    for dest in program.destinations:
        _learn(names, dest)
    return msgspec.structs.replace(
        program,
        broker=msgspec.structs.replace(
            program.broker,
            policies=[_entry(one, names) for one in program.broker.policies],
            mqsc=[_command(one, names) for one in program.broker.mqsc],
        ),
        hosts=[
            msgspec.structs.replace(host, name=hosts[host.name], at=hosts.get(host.at, ""), to=hosts.get(host.to, ""))
            for host in program.hosts
        ],
        links=[msgspec.structs.replace(link, client=hosts[link.client]) for link in program.links],
        destinations=[_destination(dest, names, hosts) for dest in program.destinations],
        steps=[
            msgspec.structs.replace(step, command=_command(step.command, names)) if isinstance(step, Operate) else step
            for step in program.steps
        ],
    )


def _command(text: str, names: dict[str, str]) -> str:
    """A command of MQSC, in which names are quoted."""
    return re.sub(r"'([^']*)'", lambda found: f"'{_other(found[1], names)}'" if found[1] else "''", text)


def _learn(names: dict[str, str], dest: Destination) -> None:
    # A wildcard covers names of as many parts as it has.
    names.setdefault(dest.name, f"place-{99 - len(names)}" + ".part" * dest.name.count("."))
    for part in dest.of:
        _learn(names, part)


def _other(name: str, names: dict[str, str]) -> str:
    """Another name; those that brokers give end with that of the destination that they belong to."""
    if name == DEAD_LETTERS or not name.startswith((ADVISORIES, DEAD_LETTERS)):
        return name if name == DEAD_LETTERS else names.get(name, name)
    head, _, source = name.rpartition(".")
    return f"{head}.{names.get(source, source)}"


def _destination(dest: Destination, names: dict[str, str], hosts: dict[str, str]) -> Destination:
    parts = [_destination(part, names, hosts) for part in dest.of]
    host = hosts[dest.host] if dest.host else ""
    return msgspec.structs.replace(dest, name=_other(dest.name, names), of=parts, host=host)


def _entry(policy: PolicySpec, names: dict[str, str]) -> PolicySpec:
    prefix = next((prefix for prefix in PREFIXES if policy.match.startswith(prefix)), "")
    return msgspec.structs.replace(
        policy, match=prefix + names.get(policy.match.removeprefix(prefix), policy.match.removeprefix(prefix))
    )
