"""A random program without what a broker does not have and cannot be told, so that the rest of it is played there.

Rules
* A destination of a kind that it lacks is a plain queue or topic; a setting that it has no word for has its default.
* Who can be restarted is: every second program that owns it, and had no restart, gets one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from brokerproof.conformance.brokers.switches import BY_KIND
from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, PolicySpec
from brokerproof.conformance.experiment.destinations import Destination
from brokerproof.conformance.experiment.steps import AnyStep, Restart
from brokerproof.conformance.generate.live import OWNERS

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.profile import Profile
    from brokerproof.conformance.brokers.settings import Settings
    from brokerproof.conformance.experiment.program import Program

RESTARTED_PERCENT = 50
KILLED_PERCENT = 60


def fitted(program: Program, seed: int, profile: Profile, capabilities: Collection[str], settings: Settings) -> Program:
    """The program of a seed as the broker of a profile can play it."""
    if len(program.brokers()) > 1:
        return program
    restarts = profile.restarts
    skewed = profile.start is not None and profile.start.clock != "none"
    hosts = [host if skewed or host.role != "broker" else replace(host, clock=ClockSpec()) for host in program.hosts]
    broker = _told(program.broker, profile, settings)
    steps = [found for step in program.steps if (found := _restarted(step, restarts)) is not None]
    chooser = SeededChooser(seed)
    if restarts and seed % OWNERS == OWNERS - 1 and chooser.flag(RESTARTED_PERCENT):
        if not any(isinstance(step, Restart) for step in steps):
            how = "stop" if restarts == "stop" or not chooser.flag(KILLED_PERCENT) else "kill"
            steps.insert(1 + chooser.below(len(steps)), Restart(how=how))  # type: ignore[arg-type]  # one of the two
        broker = replace(broker, persistent=True)
    destinations = [_plain(one, number, capabilities) for number, one in enumerate(program.destinations)]
    return replace(program, hosts=hosts, broker=broker, destinations=destinations, steps=steps)


def _plain(one: Destination, number: int, capabilities: Collection[str]) -> Destination:
    need = BY_KIND.get(one.kind)
    if need is None or need in capabilities or one.kind == "topic":
        return one
    if one.kind == "virtual":
        return Destination(one.name, "topic")
    return Destination(f"{one.kind}-{number}", "queue")


def _told(spec: BrokerSpec, profile: Profile, settings: Settings) -> BrokerSpec:
    """What of it the broker can be told."""
    words = [name for name in PolicySpec.__struct_fields__ if name in settings]
    plain = [PolicySpec(entry.match, **{name: getattr(entry, name) for name in words}) for entry in spec.policies]
    found = replace(
        settings.effective(spec, spec.generation),
        policies=[entry for entry in plain if entry != PolicySpec(entry.match)] or BrokerSpec().policies,
        persistent=spec.persistent if profile.restarts or "persistent" in settings else BrokerSpec().persistent,
        mqsc=spec.mqsc if profile.operator is not None else [],  # its operator is told, whatever it is started with
    )
    if settings.lacking(replace(found, mqsc=[]), keeps=bool(profile.restarts)):  # it cannot say where a policy holds
        return replace(found, policies=BrokerSpec().policies)
    return found


def _restarted(step: AnyStep, restarts: bool | str) -> AnyStep | None:
    """A restart as the broker can have it."""
    if not isinstance(step, Restart):
        return step
    if restarts == "stop":
        return replace(step, how="stop")
    return step if restarts else None
