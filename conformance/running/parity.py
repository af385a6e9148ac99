"""``brokerproof parity``: the same programs on the reference broker in both worlds, and where the worlds disagree.

The simulation is trusted only because this comparison holds (DESIGN section 2). It compares what must be equal in every
world: the outcome of every message, the order in which each consumer got its messages, who closed which connection and
why, the broker's counters at rest. Times are compared as intervals: for every delayed message, the shortest time
between its send and its arrival that each world allows must not exclude the other's by more than ``TIMING_MS``.

Rules
* Programs are *paced*: after each step some time passes, so that nothing is still on its way when the next one begins.
  What would then still be a race of two hosts is not compared: orders are per consumer, never between consumers.
* Only what the live world can do is asked for: STOMP hosts, waits of a few hundred milliseconds, no stalls in seeded
  programs (a stalled link is compared by a corpus program), no absolute delivery times. Nor are limits of memory and
  stores: each blocked send would be waited for in real time (blocked producers are compared by corpus programs).
* What one world cannot do is skipped there, and then nothing else can agree: such a program is *not compared*, with the
  steps, which is no agreement.
* Memory counters are not compared: a message's name is longer on the live wire. Nor is what a broker counts for all its
  queues together.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.experiment.configuration import DRAIN_HOST, HostSpec, LinkSpec
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.history import (
    Arrive,
    Closed,
    Consume,
    Counters,
    Fault,
    History,
    Send,
    Skipped,
    Subscribe,
)
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Leave, Take
from brokerproof.conformance.experiment.steps.consume import Subscribe as SubscribeStep
from brokerproof.conformance.experiment.steps.fault import Clock, Resume, Stall
from brokerproof.conformance.experiment.steps.operation import Operate
from brokerproof.conformance.experiment.steps.parallel import Parallel
from brokerproof.conformance.experiment.steps.send import Send as SendStep
from brokerproof.conformance.experiment.steps.waiting import Advance
from brokerproof.conformance.generate.networks import without_network
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.running.outcomes import outcomes

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.reference import ReferenceAdapter
    from brokerproof.conformance.worlds.live.laboratory import Laboratory

PROGRAMS = 10
#: Pause after each step: far longer than anything takes on loopback.
PACE_MS = 30
#: What a real scheduler may add or take between two worlds.
TIMING_MS = 250
#: Seeded programs are cut to what real time allows.
STEPS_MAX = 25
#: More than any such program sends.
MEMORY_LIMIT_BYTES = 1 << 30
WAIT_MS_MAX = 300
#: No time to live ends by itself while a program runs: only steps of clocks decide.
DISTANT_MS = 20_000
_COMPARED = ("size", "in_flight", "enqueued", "dequeued", "dispatched", "expired", "scheduled", "consumers")
#: Addresses, connection numbers and measured numbers in a reason belong to one run.
_OWN = re.compile(r"tcp://\S+|\d+")


class Difference(msgspec.Struct, frozen=True):
    """One thing in which the worlds disagree: what, about whom, and what each of them says."""

    what: str
    about: str
    simulated: str
    live: str

    def __str__(self) -> str:
        return f"{self.what} of {self.about}: simulated {self.simulated}, live {self.live}"


def skipped_in_one(simulated: History, live: History) -> list[str]:
    """Steps that only one of the worlds skipped, each once, as JSON."""
    left, right = _skipped(simulated), _skipped(live)
    return list(dict.fromkeys([*(step for step in left if step not in right), *(s for s in right if s not in left)]))


def _skipped(history: History) -> list[str]:
    return [msgspec.json.encode(event.step).decode() for event in history.events if isinstance(event, Skipped)]


def compare(simulated: History, live: History) -> list[Difference]:
    """All differences between two histories of one program, in a fixed order."""
    found: list[Difference] = []
    _compare_tables(found, "outcome", outcomes(simulated), outcomes(live))
    _compare_tables(found, "order", _orders(simulated), _orders(live))
    _compare_tables(found, "closing", _closings(simulated), _closings(live))
    _compare_tables(found, "counters at rest", _counters(simulated), _counters(live))
    found += _timings(simulated, live)
    return found


def _compare_tables(found: list[Difference], what: str, simulated: dict[str, str], live: dict[str, str]) -> None:
    for name in dict.fromkeys([*simulated, *live]):
        left, right = simulated.get(name, "nothing"), live.get(name, "nothing")
        if left != right:
            found.append(Difference(what, name, left, right))


def _orders(history: History) -> dict[str, str]:
    """Consumer -> what its application got, in order.

    The drain's order is the queue's; it is compared like any other.
    """
    orders: dict[str, list[str]] = {}
    for event in history.events:
        if isinstance(event, Consume):
            orders.setdefault(event.consumer, []).append(event.message)
    return {consumer: " ".join(messages) for consumer, messages in orders.items()}


def _closings(history: History) -> dict[str, str]:
    """Where and which link -> who closed it and why, without what belongs to one run."""
    closings: dict[str, list[str]] = {}
    for event in history.events:
        if isinstance(event, Closed) and event.host != DRAIN_HOST:
            # The end of a socket does not say why; only who closed it knows.
            knows = event.who == "client" or event.host == history.header.broker_host
            reason = _OWN.sub("#", event.reason) if knows else "no reason told"
            closings.setdefault(f"{event.link or event.host} at {event.host}", []).append(f"{event.who}: {reason}")
    return {name: "; ".join(found) for name, found in closings.items()}


def _counters(history: History) -> dict[str, str]:
    """Queue -> the counters of each look at rest, in order."""
    counters: dict[str, list[str]] = {}
    for event in history.events:
        if isinstance(event, Counters) and event.at_rest and event.dest is not None:
            values = [f"{name}={value}" for name in _COMPARED if (value := getattr(event, name)) is not None]
            counters.setdefault(event.dest, []).append(" ".join(values))
    return {dest: " | ".join(looks) for dest, looks in counters.items()}


def _timings(simulated: History, live: History) -> list[Difference]:
    """Delayed messages: the time from send to first arrival, as an interval in each world.

    How long a broker is down when it is restarted is the machine's affair: then nothing is compared.
    """
    found: list[Difference] = []
    if any(isinstance(event, Fault) and event.fault == "restart" for event in simulated.events):
        return found
    left, right = _delays(simulated), _delays(live)
    for message, (low_ms, high_ms) in left.items():
        if message not in right:
            continue
        live_low_ms, live_high_ms = right[message]
        if live_low_ms > high_ms + TIMING_MS or live_high_ms < low_ms - TIMING_MS:
            texts = f"{low_ms}..{high_ms} ms", f"{live_low_ms}..{live_high_ms} ms"
            found.append(Difference("time until arrival", message, *texts))
    return found


def _delays(history: History) -> dict[str, tuple[int, int]]:
    """Delayed message -> least and greatest milliseconds from its send to its first arrival, if that was at a consumer
    that had been waiting: one that came or asked for it later came when the machine let it.
    """
    sent: dict[str, Send] = {}
    ready: dict[str, int] = {}
    delays: dict[str, tuple[int, int] | None] = {}
    for event in history.events:
        if isinstance(event, Send) and event.delay_ms:
            sent[event.message] = event
        elif isinstance(event, Subscribe) and event.prefetch:
            ready[event.consumer] = event.t1
        elif isinstance(event, Arrive) and event.message in sent and event.message not in delays:
            send = sent[event.message]
            waited = ready.get(event.consumer, send.t1) < send.t0
            between = (event.t0 - send.t1) // 1_000_000, -(-(event.t1 - send.t0) // 1_000_000)
            delays[event.message] = between if waited else None
    return {message: between for message, between in delays.items() if between is not None}


def paced(program: Program) -> Program:
    """The same program with a pause after each step that does something.

    It ends with every consumer's goodbye, paced as well: else the drain would close them at once, and who gets what
    comes back in between would be luck.
    """
    steps: list[AnyStep] = []
    goodbyes = [Leave() for step in program.steps if isinstance(step, SubscribeStep)]
    for step in [*program.steps, *goodbyes]:
        steps.append(step)
        if isinstance(step, SendStep) and step.delay_ms <= WAIT_MS_MAX:
            # A short delay is waited for: waits of the live world itself (a settle) would else decide what comes first.
            steps.append(Advance(ms=max(0, step.delay_ms) + PACE_MS))
        elif not isinstance(step, Advance):
            steps.append(Advance(ms=PACE_MS))
    return program.with_steps(steps)


def fit_for_parity(program: Program) -> Program:
    """A seeded program as the live world can run it: STOMP hosts, short waits, no stalls, nothing left to chance."""
    program = without_network(program)
    hosts = [msgspec.structs.replace(host, via="stomp", expiry_check=True) for host in program.hosts]
    hosts = [_without_drift(host) for host in hosts]
    links = [LinkSpec(link.client) for link in program.links]
    broker = program.broker
    stamping = broker.timestamping
    if stamping is not None:
        stamping = msgspec.structs.replace(
            stamping,
            ttl_ceiling_ms=_distant(stamping.ttl_ceiling_ms),
            zero_expiration_override_ms=_distant(stamping.zero_expiration_override_ms),
        )
    policies = [msgspec.structs.replace(policy, memory_limit_bytes=None) for policy in broker.policies]
    unlimited = {"memory_limit_bytes": MEMORY_LIMIT_BYTES, "store_limit_bytes": 0, "temp_limit_bytes": 0}
    managed = {"mqsc": [], "generation": {area: name for area, name in broker.generation.items() if name != "ibm-mq"}}
    # A refusal over STOMP ends the connection, and whether the next request meets the old one is chance.
    delays = {"delay_support": True, "delay_max_ms": 0}
    broker = msgspec.structs.replace(broker, timestamping=stamping, policies=policies, **unlimited, **managed, **delays)
    steps = [_shortened(step) for step in program.steps if _is_comparable(step)][:STEPS_MAX]
    return paced(msgspec.structs.replace(program, broker=broker, hosts=hosts, links=links, steps=steps))


def _is_comparable(step: AnyStep) -> bool:
    if isinstance(step, Operate):
        return step.op != "mqsc"
    return not isinstance(step, Stall | Resume | Parallel)


def _distant(ttl_ms: int) -> int:
    """A time to live that does not end about then by itself; 0 and less stay what they mean.

    Seconds are added that no skew or jump has: a message that dies just when it is sent would die by luck.
    """
    return ttl_ms if ttl_ms <= 0 else max(ttl_ms, DISTANT_MS) + 5003


def _without_drift(host: HostSpec) -> HostSpec:
    return msgspec.structs.replace(host, clock=msgspec.structs.replace(host.clock, drift_ppm=0))


def _shortened(step: AnyStep) -> AnyStep:
    """Waits become short. Times to live and delays that would end about then are moved out of the way: both worlds must
    see the same side of every border.
    """
    if isinstance(step, Advance):
        return Advance(ms=min(step.ms, WAIT_MS_MAX))
    if isinstance(step, Take):
        return msgspec.structs.replace(step, deadline_ms=min(step.deadline_ms, PACE_MS))
    if isinstance(step, SendStep):
        delay_ms = min(step.delay_ms, WAIT_MS_MAX)
        distant = {"ttl_ms": _distant(step.ttl_ms), "life_ms": _distant(step.life_ms)}
        count = step.count if delay_ms >= 0 else 1  # whether the next one still meets the connection is luck
        return msgspec.structs.replace(step, **distant, delay_ms=delay_ms, deliver_in_ms=0, count=count)
    if isinstance(step, Clock):
        # Nor must a small jump bring such a border near; larger ones cross it by far.
        return step if abs(step.jump_ms) >= 2 * DISTANT_MS else Clock(host=step.host, jump_ms=2 * DISTANT_MS + 7)
    return step


class ParityRun(msgspec.Struct):
    """One program in both worlds."""

    name: str
    seconds: float
    differences: list[Difference]
    not_compared: list[str] = msgspec.field(default_factory=list)


def run_parity(
    adapter: ReferenceAdapter, laboratory: Laboratory, name: str, program: Program, seed: int | None = None
) -> tuple[ParityRun, History, History]:
    """Run one program in both worlds and compare; also both histories."""
    from brokerproof.conformance.worlds.live.world import LiveWorld
    from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

    started = time.monotonic()
    simulated = SimulatedWorld(seed=seed).run(program)
    live = LiveWorld(adapter, laboratory, seed=seed).run(program)
    skipped = skipped_in_one(simulated, live)
    differences = [] if skipped else compare(simulated, live)
    return ParityRun(name, time.monotonic() - started, differences, skipped), simulated, live


def parity_programs(count: int, seed: int, names: Sequence[str] = ()) -> Iterator[tuple[str, Program, int | None]]:
    """The corpus programs (these, or all) that the reference server can run live, paced, then ``count`` seeds. Raises
    ``UsageError`` for a name that no such program has.
    """
    from brokerproof.conformance.brokers.reference import ReferenceAdapter
    from brokerproof.conformance.running.live import plan_of

    # What comes first of what is done at once is luck where time is real.
    plan = {
        name: program
        for name, program in plan_of(ReferenceAdapter())
        if not any(isinstance(step, Parallel) for step in program.steps)
    }
    for name in names:
        if name not in plan:
            raise UsageError(f"no program {name!r} of the corpus can be compared; one of {', '.join(sorted(plan))}")
    for name in names or plan:
        yield name, paced(plan[name]), None
    for number in range(seed, seed + count):
        yield f"seed-{number}", fit_for_parity(program_for_seed(number)), number
