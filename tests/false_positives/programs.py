"""Programs that people may write and no generator draws.

``mixed`` puts the rare steps (operators, restarts, probes, pauses, acknowledgements of any type) at any place of a
seed's program; ``networked`` plays it over two brokers, if it can be; ``chaos`` has faults at any place; ``crossed``
plays two seeds' steps by turns on a broker that has both's options; ``reporting`` asks a queue manager for reports of
anything; ``acknowledging`` is made of sends, takes and acknowledgements past the library; ``concurrent`` lets several
hosts go on at once. Like every program they are right: what cannot be done is skipped.
"""

from __future__ import annotations

import random
from typing import Final

import msgspec

from brokerproof.conformance.experiment.chooser import SeededChooser
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec, LinkSpec, PolicySpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    FEATURES,
    REGISTRY,
    Acknowledge,
    Advance,
    AnyStep,
    Counters,
    Leave,
    Parallel,
    Send,
    Settle,
    Shape,
    Subscribe,
    Take,
)
from brokerproof.conformance.generate.chaos import chaotic
from brokerproof.conformance.generate.networks import is_networkable, with_network, without_network
from brokerproof.conformance.generate.programs import program_for_seed, shape_of
from brokerproof.conformance.rules.told_by_managers import PASSED, PASSES, PLAIN

#: Steps that few programs have.
RARE: Final = tuple(step for step in REGISTRY if step.feature)
#: How far the other program of a cross is; of how many seeds one makes a queue manager.
OTHERS: Final = 3_000_000
QUEUE_MANAGERS: Final = 20
_TTLS_MS: Final = (0, 120_000, 5, 20)


def mixed(seed: int) -> Program:
    """A seed's program with up to ten rare steps in it."""
    program = without_network(program_for_seed(seed))
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    chooser, shape = SeededChooser(seed + 1_000_000), shape_of(program)
    steps: list[AnyStep] = []
    for step in program.steps:
        alone = isinstance(step, Subscribe) and chance.random() < 0.5
        steps.append(msgspec.structs.replace(step, ack="individual") if alone else step)
    for _ in range(chance.randint(2, 10)):
        kind = chance.choice(RARE)
        steps.insert(chance.randint(0, len(steps)), kind.draw(chooser, shape))
    return program.with_steps(steps)


def crossed(seed: int) -> Program:
    """Two seeds' programs in one: options that neither has beside the other's steps."""
    program, other = program_for_seed(seed), without_network(program_for_seed(seed + OTHERS))
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    mine, theirs = (msgspec.to_builtins(one.broker) for one in (program, other))
    spec = mine | {name: value for name, value in theirs.items() if name not in mine or chance.random() < 0.3}
    if spec.get("generation", {}).get("delay") != "ibm-mq":
        spec.pop("mqsc", None)
    names, hosts = {one.name for one in program.destinations}, {"", *(host.name for host in program.hosts)}
    more = [one for one in other.destinations if one.name not in names and one.host in hosts]
    steps: list[AnyStep] = []
    ahead = [list(program.steps), list(other.steps)]
    while any(ahead):
        rest = ahead[chance.random() * sum(map(len, ahead)) >= len(ahead[0])]
        steps += [rest.pop(0) for _ in range(min(len(rest), chance.randint(1, 4)))]
    broker = msgspec.convert(spec, BrokerSpec)
    program = msgspec.structs.replace(program, broker=broker, destinations=[*program.destinations, *more])
    return program.with_steps(steps[: chance.choice((15, 30, 60, 90))])


def reporting(seed: int) -> Program:
    """The first program of a queue manager from a seed's on, in which most messages ask for reports."""
    first = seed * QUEUE_MANAGERS
    found = (program_for_seed(one) for one in range(first, first + QUEUE_MANAGERS))
    program = next((one for one in found if one.broker.generation.get("delay") == "ibm-mq"), program_for_seed(first))
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret

    def asking(step: AnyStep) -> AnyStep:
        if isinstance(step, Parallel):
            return msgspec.structs.replace(step, of=[[asking(one) for one in line] for line in step.of])
        if not isinstance(step, Send) or chance.random() < 0.3:
            return step
        asked = {name: bit * chance.choice((1, 3, 7)) for name, bit in PLAIN.items() if chance.random() < 0.5}
        if chance.random() < 0.5:
            asked[PASSED] = PASSES
        return msgspec.structs.replace(step, headers=step.headers | asked, reply=chance.random() < 0.6)

    return program.with_steps([asking(step) for step in program.steps])


def chaos(seed: int) -> Program:
    """A seed's program with faults of the wildest profile in it."""
    return chaotic(without_network(program_for_seed(seed)), "cruel", seed)


def networked(seed: int) -> Program:
    """A seed's program over two brokers, if nothing in it belongs to one alone."""
    program = program_for_seed(seed)
    return with_network(SeededChooser(seed + 1_000_000), program) if is_networkable(program) else program


def acknowledging(seed: int) -> Program:
    """Acknowledgements of all types, for messages that live, die and are immortal."""
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    consumers = chance.randint(1, 2)
    hosts = [HostSpec("b", "broker"), HostSpec("p0", "client")]
    hosts += [HostSpec(f"c{number}", "client", "jms") for number in range(consumers)]
    latency_us = chance.choice((10, 300))
    broker = BrokerSpec(
        generation={"expiry": chance.choice(("classic-5.14", "documented"))},
        policies=[PolicySpec()],
        dead_letter_non_persistent=chance.random() < 0.5,
    )
    frame = Program(FORMAT, broker, hosts, [LinkSpec(host.name, latency_us) for host in hosts[1:]], queues("q0"), [])
    chooser, shape = SeededChooser(seed), Shape(consumers, 1, consumers, [0, 5, 50], ())
    steps = [_subscribe(chance, number + 1) for number in range(consumers)]
    steps += [_step(chance, chooser, shape) for _ in range(chance.randint(8, 20))]
    return frame.with_steps(steps)


def concurrent(seed: int) -> Program:
    """A seed's program with at least three clients and two to five steps that several of them do at once."""
    program = program_for_seed(seed)
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    missing = 3 - len(program.clients())
    extra = [HostSpec(f"x{number}", "client", chance.choice(("stomp", "jms"))) for number in range(missing)]
    links = [LinkSpec(host.name, chance.choice((0, 10, 500, 20_000))) for host in extra]
    program = msgspec.structs.replace(program, hosts=[*program.hosts, *extra], links=[*program.links, *links])
    chooser, shape = SeededChooser(seed + 2_000_000), shape_of(program, tuple(chance.sample(FEATURES, 3)))
    steps = list(program.steps)
    for _ in range(chance.randint(2, 5)):
        steps.insert(chance.randint(0, len(steps)), Parallel.draw(chooser, shape))
    return program.with_steps(steps)


def _subscribe(chance: random.Random, host: int) -> AnyStep:
    return Subscribe(host=host, prefetch=chance.choice((1, 3, 10)), ack="individual")


def _step(chance: random.Random, chooser: SeededChooser, shape: Shape) -> AnyStep:
    kind = chance.choices(range(7), (25, 10, 25, 28, 5, 4, 3))[0]
    if kind == 0:
        ttl_ms, persistent = chance.choice(_TTLS_MS), chance.random() < 0.5
        return Send(count=chance.randint(1, 5), ttl_ms=ttl_ms, persistent=persistent)
    if kind == 1:
        return _subscribe(chance, 1 + chance.randint(0, shape.clients - 1))
    if kind == 2:
        return Take(consumer=chance.randint(0, 2), deadline_ms=5, count=chance.randint(1, 8))
    if kind == 3:
        return Acknowledge.draw(chooser, shape)
    if kind == 4:
        return Advance(ms=chance.choice((1, 10, 50)))
    if kind == 5:
        return Counters()
    return Leave(consumer=chance.randint(0, 2)) if chance.random() < 0.5 else Settle()
