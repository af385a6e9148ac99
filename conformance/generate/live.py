"""Random programs for real processes: the seeded driver's, made quick.

Rules
* The same seed is the same program. Waits, lives, delays and skews shrink together until the waits are ``WAITS_MS`` in
  all: what is before what stays so.
* Nine of ten share brokers: their broker has its default settings and a clock of its own, all other clocks are told
  relative to it, and nobody stops, skews or operates it, or uses the queue of all dead letters. The tenth owns its
  broker.
* Several brokers are asked for: then a program that is a network stays one, on brokers of its own.
* A program of fewer than ``OPERATIONS_MIN`` steps of clients is not worth a run: the next one is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, MonitorSpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.steps import (
    Ack,
    Advance,
    AnyStep,
    Clock,
    Nack,
    Operate,
    Pause,
    Probe,
    Restart,
    Send,
    Settle,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.steps.parallel import mapped
from brokerproof.conformance.generate.networks import without_network
from brokerproof.conformance.generate.programs import program_for_seed

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.experiment.program import Program

#: The most that the waits of one program may take together.
WAITS_MS = 2000
OPERATIONS_MIN = 10
#: One program of so many owns its broker.
OWNERS = 10
#: What a queue is called that was the one of all dead letters.
LETTERS = "letters"
#: From one draw to the next of the same seed; larger than any number of seeds of a run.
_STRIDE = 1_000_000_007
#: A link's monitor that is shorter than this says more of the machine than of the broker.
READ_MIN_MS = 1000
_OF_CLIENTS = (Send, Subscribe, Take, Ack, Nack)
_OF_BROKER = (Operate, Pause, Probe, Restart)


def live_program(seed: int, *, networks: bool = False, times: int = 1) -> Program:
    """The program of a seed, for the live world; for one that lives so many times as fast as the machine it waits as
    many times as long.
    """
    program, draw = _drawn(seed, networks=networks), seed
    while sum(isinstance(step, _OF_CLIENTS) for step in program.each_step()) < OPERATIONS_MIN:
        draw += _STRIDE
        program = _drawn(draw, networks=networks)
    if seed % OWNERS != OWNERS - 1 and len(program.brokers()) == 1:
        program = shared(program)
    return quick(program, WAITS_MS * times)


def _drawn(seed: int, *, networks: bool) -> Program:
    program = program_for_seed(seed)
    return program if networks else without_network(program)


def shared(program: Program) -> Program:
    """The same on a broker that others use, too."""
    broker = program.broker_host()
    at = program.hosts.index(broker)
    hosts = [
        msgspec.structs.replace(
            host,
            clock=ClockSpec()
            if host is broker
            else msgspec.structs.replace(host.clock, offset_ms=host.clock.offset_ms - broker.clock.offset_ms),
        )
        for host in program.hosts
    ]
    steps = [
        step
        for step in program.steps
        if not isinstance(step, _OF_BROKER) and not (isinstance(step, Clock) and step.host % len(hosts) == at)
    ]
    # Who takes from the queue of all dead letters takes those of others.
    dests = [
        msgspec.structs.replace(one, name=LETTERS) if one.name == DEAD_LETTERS else one for one in program.destinations
    ]
    return msgspec.structs.replace(program, broker=BrokerSpec(), hosts=hosts, destinations=dests, steps=steps)


def waits_ms(program: Program) -> int:
    """What its steps wait for in all, about."""
    waits = [step.ms for step in program.each_step() if isinstance(step, Advance | Pause)]
    return sum(waits) + sum(step.deadline_ms for step in program.each_step() if isinstance(step, Take))


def quick(program: Program, most_ms: int = WAITS_MS) -> Program:
    """The same with all its times divided by one number, so that it waits ``most_ms`` at most, and for its longest
    delay half as long.
    """
    delays = [max(step.delay_ms, step.deliver_in_ms) for step in program.each_step() if isinstance(step, Send)]
    total_ms = max(waits_ms(program), 2 * max(delays, default=0))
    if total_ms <= most_ms:
        return program

    def less(ms: int) -> int:
        return int(ms * most_ms / total_ms) or (ms > 0) - (ms < 0)

    def quicker(step: AnyStep) -> AnyStep:
        return _quick(step, less)

    hosts = [
        msgspec.structs.replace(host, clock=msgspec.structs.replace(host.clock, offset_ms=less(host.clock.offset_ms)))
        for host in program.hosts
    ]
    links = [
        msgspec.structs.replace(link, monitor=None if link.monitor is None else _monitor(link.monitor))
        for link in program.links
    ]
    return msgspec.structs.replace(
        program, hosts=hosts, links=links, steps=[mapped(step, quicker) for step in program.steps]
    )


def _monitor(monitor: MonitorSpec) -> MonitorSpec:
    return MonitorSpec(max(READ_MIN_MS, monitor.read_ms), monitor.initial_delay_ms)


def _quick(step: AnyStep, less: Callable[[int], int]) -> AnyStep:
    if isinstance(step, Settle | Probe):
        return step
    times = {name: getattr(step, name) for name in step.__struct_fields__ if name == "ms" or name.endswith("_ms")}
    return msgspec.structs.replace(step, **{name: less(ms) for name, ms in times.items()}) if times else step
