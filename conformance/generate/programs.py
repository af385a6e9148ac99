"""The seeded driver's generator: from a chooser to a program.

Rules:

* Everything comes from the chooser, so the same seed is the same program, byte for byte, on every machine (DESIGN
  section 6).
* Swarm testing: each program has a random subset of all features, few or many of them, and every kind of step that they
  allow has a weight of its own: a program in which everything happens equally often explores nothing deeply.
* About every third draw is a template (``templates.py``, ``features.py``), one of the program's favourites: stories
  need steps that belong together.
* Steps that nothing can be done with are turned elsewhere or dropped (``sketch.py``).
"""

from __future__ import annotations

from brokerproof.conformance.experiment.chooser import Chooser, SeededChooser
from brokerproof.conformance.experiment.destinations import ADVISORIES
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import FEATURES, REGISTRY, AnyStep, Leave, Settle, Shape
from brokerproof.conformance.experiment.steps.waiting import Counters
from brokerproof.conformance.generate.epilogues import (
    has_room,
    topics_of,
    with_departure,
    with_dying_backlog,
    with_epilogue,
)
from brokerproof.conformance.generate.features import TEMPLATES_OF, crossed
from brokerproof.conformance.generate.frame import (
    IMPLIED,
    SETTINGS,
    TTLS_MS,
    draw_frame,
    of_generation,
    with_logins,
    with_versions,
    with_zones,
)
from brokerproof.conformance.generate.networks import is_networkable, with_network
from brokerproof.conformance.generate.queue_managers import with_queue_manager
from brokerproof.conformance.generate.scenarios import SCENARIOS
from brokerproof.conformance.generate.sketch import Sketch
from brokerproof.conformance.generate.templates import TEMPLATES, Template

#: Version of the generator: the same seed gives another program when this changes, so it is recorded with every
#: campaign.
GENERATOR = 19

STEPS_MIN = 6
STEPS_MAX = 40
#: How many of 100 features a program has, and what the weight of a kind of step is multiplied with.
DENSITIES = (15, 5, 30, 50)
FACTORS = (4, 1, 16, 0)
#: Favourite templates of a program, at most.
FAVOURITES = 4
#: How many of 100 programs with that feature have a queue manager, whose commands leave much undecided.
MANAGED_PERCENT = 20
#: How many of 100 programs that could be networks of brokers are some.
NETWORK_PERCENT = 6
#: How many of 100 programs whose clocks differ have hosts in several time zones.
ZONED_PERCENT = 25
#: How many of 100 programs with other generations count what is in flight when it is assigned.
EARLY_PERCENT = 40
#: How many of 100 of these with room for it end with a consumer that leaves behind a link that hangs.
DEPARTURE_PERCENT = 30
#: How many of 100 other programs with durable subscriptions end with one that stays away for too long.
BACKLOG_PERCENT = 20
#: How many of 100 programs have clients that offer one earlier version of STOMP.
VERSIONS_PERCENT = 30
#: How many of 100 with raw peers are about who is let in.
LOGINS_PERCENT = 20
#: Steps of no feature that a swarm may leave out; the others always stay, or nothing would happen.
_OPTIONAL = (Leave, Settle, Counters)
#: What a message weighs beside its body, in the reference broker's sums.
_CHARGE_BYTES = 1024


class StepPicker:
    """Draws steps by weight: one ``below`` for the kind, then the step's own choices."""

    def __init__(self, mix: dict[type[AnyStep], int]) -> None:
        self._limits: list[tuple[int, type[AnyStep]]] = []
        self._total = 0
        for step, weight in mix.items():
            if weight > 0:
                self._total += weight
                self._limits.append((self._total, step))

    def draw(self, chooser: Chooser, shape: Shape) -> AnyStep:
        """One step."""
        value = chooser.below(self._total)
        return next(step for limit, step in self._limits if value < limit).draw(chooser, shape)


def generate_program(chooser: Chooser) -> Program:
    """Draw a whole program."""
    features = draw_features(chooser)
    program = _drawn(chooser, features)
    # Last of all: a program without zones, or with counts as they always were, stays the one that it was before.
    zoned = with_zones(chooser, program) if "skews" in features and chooser.flag(ZONED_PERCENT) else program
    if "generations" in features and chooser.flag(EARLY_PERCENT):
        early = of_generation(zoned, "in-flight", "assigned")
        departs = has_room(early) and chooser.flag(DEPARTURE_PERCENT)
        zoned = with_departure(chooser, early) if departs else early
    told = with_versions(chooser, zoned) if chooser.flag(VERSIONS_PERCENT) else zoned
    asks = "raw-peers" in features and not any(host.user for host in told.hosts) and chooser.flag(LOGINS_PERCENT)
    return with_logins(chooser, told) if asks else told


def _drawn(chooser: Chooser, features: tuple[str, ...]) -> Program:
    managed = "queue-managers" in features and chooser.flag(MANAGED_PERCENT)
    program = extended(chooser, draw_frame(chooser, features), features)
    if managed:
        return with_queue_manager(chooser, program)
    # Last of all: a program that is no network, and has no epilogue, stays the one that it was before there were any.
    if is_networkable(program) and chooser.flag(NETWORK_PERCENT):
        return with_network(chooser, program)
    dies = "durables" in features and topics_of(program) and chooser.flag(BACKLOG_PERCENT)
    return with_dying_backlog(chooser, program) if dies else with_epilogue(chooser, program, features)


def extended(chooser: Chooser, frame: Program, features: tuple[str, ...]) -> Program:
    """A program, perhaps one without steps yet, with more."""
    shape, sketch = shape_of(frame, features), Sketch(frame)
    picker = StepPicker(_draw_mix(chooser, features))
    favourites = _draw_favourites(chooser, features)
    steps: list[AnyStep] = list(frame.steps)
    for step in steps:
        sketch.follow(step)
    wanted = STEPS_MIN + chooser.below(STEPS_MAX - STEPS_MIN)
    while len(steps) < wanted and chooser.step():
        if not chooser.flag(30):
            steps += sketch.fitted(chooser, picker.draw(chooser, shape))
            continue
        for step in favourites[chooser.below(len(favourites))](chooser, shape):
            steps += sketch.fitted(chooser, sketch.place(crossed(chooser, shape, step)))
    return frame.with_steps(steps)


def program_for_seed(seed: int) -> Program:
    """The program of a seed."""
    return generate_program(SeededChooser(seed))


def draw_features(chooser: Chooser) -> tuple[str, ...]:
    """What the next program is about, with what that needs."""
    percent = DENSITIES[chooser.below(len(DENSITIES))]
    found = [feature for feature in (*FEATURES, *SETTINGS) if chooser.flag(percent)]
    return tuple(dict.fromkeys([*found, *(needed for feature in found for needed in IMPLIED.get(feature, ()))]))


def _draw_mix(chooser: Chooser, features: tuple[str, ...]) -> dict[type[AnyStep], int]:
    mix: dict[type[AnyStep], int] = {}
    for step in REGISTRY:
        if not step.feature or step.feature in features:
            bound = len(FACTORS) if step in _OPTIONAL else len(FACTORS) - 1
            mix[step] = step.weight * FACTORS[chooser.below(bound)]
    return mix


def _draw_favourites(chooser: Chooser, features: tuple[str, ...]) -> list[Template]:
    known = [template for template, feature in TEMPLATES.items() if not feature or feature in features]
    for feature in features:
        known += [*TEMPLATES_OF.get(feature, ()), *SCENARIOS.get(feature, ())]
    return [known[chooser.below(len(known))] for _ in range(1 + chooser.below(FAVOURITES))]


def shape_of(program: Program, features: tuple[str, ...] = ()) -> Shape:
    """What step generators need to know of a program."""
    broker, clients = program.broker, program.clients()
    times = [0, *TTLS_MS]
    sizes: list[int] = []
    counts: list[int] = []
    limits = [broker.memory_limit_bytes, broker.store_limit_bytes, broker.temp_limit_bytes]
    for entry in broker.policies:
        times.append(entry.expire_period_ms)
        limits.append(entry.memory_limit_bytes or 0)
        counts += [entry.max_page_size, entry.queue_prefetch or 0, entry.durable_topic_prefetch or 0]
        counts += [entry.pending_message_limit or 0]
        if entry.redelivery is not None:
            times += [entry.redelivery.initial_ms, entry.redelivery.pause_ms]
            counts.append(entry.redelivery.maximum)
    times += [abs(host.clock.offset_ms) for host in program.hosts]
    monitors = [link.monitor for link in program.links] + [broker.monitor_offer]
    for monitor in monitors:
        if monitor is not None:
            times += [monitor.read_ms, monitor.initial_delay_ms]
    for limit in limits:
        if 0 < limit <= 64 * 1024:
            sizes += [max(0, limit // part - _CHARGE_BYTES) for part in (1, 2, 4, 8)]
    kinds = [dest.kind for dest in program.destinations]
    open_to = [place for place, dest in enumerate(program.destinations) if not dest.name.startswith(ADVISORIES)]
    return Shape(
        len(clients),
        len(kinds),
        len(clients),
        list(dict.fromkeys(times)),
        features,
        vias=[host.via for host in clients],
        topics=[place for place in open_to if kinds[place] in {"topic", "virtual"}],
        open_to=open_to,
        consumable=[place for place, kind in enumerate(kinds) if kind != "composite"],
        sizes=list(dict.fromkeys(sizes)),
        counts=[count for count in dict.fromkeys(counts) if count > 0],
    )
