"""The seeded driver's generator: from a chooser to a program.

Rules:

* Everything comes from the chooser, so the same seed is the same program, byte for byte, on every machine (DESIGN
  section 6).
* Swarm testing: each program uses a random half of the faults and features, because a program in which everything
  happens explores nothing deeply.
* Times come from the program's own constants and their neighbours by one millisecond as often as from ranges: the
  defects live at the borders.
* About every third draw is a template (``templates.py``), and each program has a favourite one: stories need steps that
  belong together.
* What a program is about beside the common ground is drawn first (``features.py``).
* Weights are data (``MIX``); the benchmark's mix is a committed file of the same shape.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.chooser import Chooser, SeededChooser
from brokerproof.conformance.experiment.configuration import (
    BrokerSpec,
    ClockSpec,
    HostSpec,
    LinkSpec,
    MonitorSpec,
    PolicySpec,
    TimeStampingSpec,
)
from brokerproof.conformance.experiment.destinations import queues, topics
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import (
    REGISTRY,
    Ack,
    Advance,
    AnyStep,
    Clock,
    Counters,
    Leave,
    Nack,
    Resume,
    Send,
    Settle,
    Shape,
    Stall,
    Subscribe,
    Take,
)
from brokerproof.conformance.generate.features import MIXES, draw_features, draw_template, fit_frame
from brokerproof.conformance.generate.templates import TEMPLATES

#: Version of the generator: the same seed gives another program when this changes, so it is recorded with every
#: campaign.
GENERATOR = 2

#: Constants that programs are built around, simplest first.
TTLS_MS = (1000, 2000, 120_000, 100, 1, 20_000)
SKEWS_MS = (0, 300_000, -300_000, 1000, -1000, 60_000, -60_000, 30_000, -30_000)
PERIODS_MS = (1000, 500, 0, 30_000)
LATENCIES_US = (0, 500, 10, 20_000)
READS_MS = (1000, 2000)
DELAYS_MS = (0, 500, 1000)
#: Memory limits in bytes: none to speak of, and small enough for a dozen messages to reach the mark.
LIMITS_BYTES = (64 * 1024 * 1024, 16 * 1024, 32 * 1024)
STEPS_MIN = 6
STEPS_MAX = 40

#: Relative frequency of each step in the default mix.
MIX: dict[str, int] = {step.__struct_config__.tag: step.weight for step in REGISTRY}  # type: ignore[misc]  # tags are strings

_CLASSES: dict[str, type[AnyStep]] = {str(step.__struct_config__.tag): step for step in REGISTRY}
#: Steps that a swarm may leave out; the rest always stays, or nothing would happen.
_OPTIONAL = (Nack, Leave, Clock, Stall, Resume, Settle, Counters)
_ALWAYS = (Send, Subscribe, Take, Ack, Advance)


class StepPicker:
    """Draws steps by weight: one ``below`` for the kind, then the step's own choices."""

    __slots__ = ("_classes", "_limits", "_total")

    def __init__(self, mix: dict[str, int]) -> None:
        self._classes: list[type[AnyStep]] = []
        self._limits: list[int] = []
        total = 0
        for name, weight in mix.items():
            if weight > 0:
                total += weight
                self._classes.append(_CLASSES[name])
                self._limits.append(total)
        self._total = total

    def draw(self, chooser: Chooser, shape: Shape) -> AnyStep:
        """One step."""
        value = chooser.below(self._total)
        for index, limit in enumerate(self._limits):
            if value < limit:
                return self._classes[index].draw(chooser, shape)
        raise AssertionError(f"{value} is not below {self._total}")


def generate_program(chooser: Chooser) -> Program:
    """Draw a whole program."""
    features = draw_features(chooser)
    frame = fit_frame(draw_frame(chooser), features)
    shape = shape_of(frame, features)
    picker = StepPicker(_swarm_mix(chooser, features))
    steps: list[AnyStep] = []
    wanted = STEPS_MIN + chooser.below(STEPS_MAX - STEPS_MIN)
    favourite = TEMPLATES[chooser.below(len(TEMPLATES))]
    while len(steps) < wanted and chooser.step():
        if features and chooser.flag(30):
            steps += draw_template(chooser, shape)
        elif chooser.flag(30):
            template = favourite if chooser.flag(60) else TEMPLATES[chooser.below(len(TEMPLATES))]
            steps += template(chooser, shape)
        else:
            steps.append(picker.draw(chooser, shape))
    return frame.with_steps(steps)


def program_for_seed(seed: int) -> Program:
    """The program of a seed."""
    return generate_program(SeededChooser(seed))


def draw_frame(chooser: Chooser) -> Program:
    """Draw everything but the steps."""
    clients = 1 + chooser.below(3)
    skewed = chooser.flag(70)
    hosts = [HostSpec("b", "broker", clock=_draw_clock(chooser, skewed))]
    links = []
    monitored = chooser.flag(35)
    latency_us = LATENCIES_US[chooser.below(len(LATENCIES_US))]
    for number in range(clients):
        name = f"c{number}"
        jms = chooser.flag(35)
        check = not (jms and chooser.flag(15))
        hosts.append(HostSpec(name, "client", "jms" if jms else "stomp", _draw_clock(chooser, skewed), check))
        links.append(LinkSpec(name, latency_us, _draw_monitor(chooser) if monitored else None))
    dests = queues("q0")
    if chooser.flag(40):
        dests += queues("q1")
    if chooser.flag(25):
        dests += topics("t0")
    return Program(FORMAT, _draw_broker(chooser), hosts, links, dests, [])


def _draw_clock(chooser: Chooser, skewed: bool) -> ClockSpec:
    if not skewed:
        return ClockSpec()
    drift_ppm = (0, 100, -100)[chooser.below(3)] if chooser.flag(10) else 0
    return ClockSpec(SKEWS_MS[chooser.below(len(SKEWS_MS))], drift_ppm)


def _draw_monitor(chooser: Chooser) -> MonitorSpec:
    return MonitorSpec(READS_MS[chooser.below(len(READS_MS))], DELAYS_MS[chooser.below(len(DELAYS_MS))])


def _draw_broker(chooser: Chooser) -> BrokerSpec:
    stamping = None
    if chooser.flag(45):
        stamping = TimeStampingSpec(
            future_only=chooser.flag(50),
            ttl_ceiling_ms=TTLS_MS[chooser.below(len(TTLS_MS))] if chooser.flag(30) else 0,
            zero_expiration_override_ms=TTLS_MS[chooser.below(len(TTLS_MS))] if chooser.flag(25) else 0,
        )
    limit_bytes = LIMITS_BYTES[chooser.below(len(LIMITS_BYTES))] if chooser.flag(25) else LIMITS_BYTES[0]
    own_bytes = 8 * 1024 if chooser.flag(15) else None
    entries = [PolicySpec(">", PERIODS_MS[chooser.below(len(PERIODS_MS))])]
    if own_bytes is not None:
        entries.append(PolicySpec("q0", entries[0].expire_period_ms, own_bytes))
    return BrokerSpec(
        generation={"expiry": "documented"} if chooser.flag(15) else {},
        timestamping=stamping,
        memory_limit_bytes=limit_bytes,
        policies=entries,
        dead_letter_non_persistent=chooser.flag(25),
    )


def shape_of(program: Program, features: tuple[str, ...] = ()) -> Shape:
    """What step generators need to know of a program."""
    times = [0, *TTLS_MS]
    times += [entry.expire_period_ms for entry in program.broker.policies]
    times += [abs(host.clock.offset_ms) for host in program.hosts]
    for link in program.links:
        if link.monitor is not None:
            times += [link.monitor.read_ms, link.monitor.initial_delay_ms]
    clients = program.clients()
    distinct = list(dict.fromkeys(times))
    return Shape(len(clients), len(program.destinations), len(clients), distinct, features)


def _swarm_mix(chooser: Chooser, features: tuple[str, ...]) -> dict[str, int]:
    mix = dict(MIX)
    for feature in features:
        mix |= MIXES.get(feature, {})
    for step in _OPTIONAL:
        if chooser.flag(50):
            mix[str(step.__struct_config__.tag)] = 0
    return mix
