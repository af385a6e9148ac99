"""A program as a broker with only some features plays it: what it cannot is left out, the rest is kept.

Rules
* A queue is a topic where there are no queues; a time to live is the broker's to count where it knows no expiration.
  Where it knows both, every other message that is to live for some time says it in the one way, as long as all clocks
  are right and so both mean the same: each is a path of its own through a broker.
* A host of a protocol that the broker does not speak is played over one that it does; what JMS alone knows is skipped.
* An option that the broker does not offer is taken from the message or the consumer, a step from the program. So a
  broker that knows no time to live is still tested for order and loss.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import msgspec

from brokerproof.conformance.brokers.apart import ACTIVEMQ, Letters
from brokerproof.conformance.brokers.selector_forms import Language
from brokerproof.conformance.brokers.switches import BY_CLAIM
from brokerproof.conformance.experiment.configuration import BrokerSpec
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS
from brokerproof.conformance.experiment.steps import (
    AnyStep,
    Begin,
    Clock,
    Commit,
    Exhaust,
    Freeze,
    Leave,
    Nack,
    Operate,
    Pause,
    Probe,
    Restart,
    Rollback,
    Send,
    Settle,
    Subscribe,
    Take,
)
from brokerproof.conformance.experiment.steps.parallel import SEQUENCES_MAX, Parallel, each, mapped
from brokerproof.conformance.generate.live import LETTERS

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.program import Program

SECOND_MS: Final = 1000
#: So long a consumer asks that would have been given what is there, and for so many messages at most. At the end of a
#: program, where no counter tells what it was owed, so long that a broker in time would have given it that.
ASK_MS, ASKED, SURE_MS = 200, 10, 1100
#: Capability -> the fields of a message and of a consumer that need it, with the value that asks for nothing.
_SEND: dict[str, dict[str, object]] = {
    "ttl": {"ttl_ms": 0, "endless": False, "stamp": "client"},
    "endless": {"endless": False},
    "broker-ttl": {"life_ms": 0},
    "delay": {"delay_ms": 0},
    "absolute-delay": {"deliver_in_ms": 0, "preset_in_ms": 0},
    "groups": {"group": ""},
    "producers": {"calls": ""},
    "temporaries": {"reply": False},
}
_SUBSCRIBE: dict[str, dict[str, object]] = {
    "prefetch": {"prefetch": -1},
    "selectors": {"selector": ""},
    "durables": {"durable": ""},
    "browsers": {"browser": False},
    "exclusive": {"exclusive": False, "priority": 0},
    "wildcards": {"wild": False},
    "no-local": {"no_local": False},
}
#: Capability -> another that whoever has it has, too.
IMPLIES: Final = {"broker-ttl": "ttl", "topic-wildcards": "wildcards", "jms-semantics": "ends-durables"}
#: Capability -> steps that mean nothing without it.
_STEPS: dict[str, tuple[type, ...]] = {"nack": (Nack,), "transactions": (Begin, Commit, Rollback)}


def cast(
    program: Program,
    capabilities: Collection[str],
    vias: Collection[str],
    *,
    stamps: bool = True,
    queues: bool = True,
    life_unit_ms: int = 1,
    pulls: bool = False,
    delay_clock: str = "elapsed",
    language: Language = Language(),  # noqa: B008 - it is immutable
    versions: Collection[str] = (),
    letters: Letters = ACTIVEMQ,
) -> Program:
    """The same program for a broker that offers these capabilities to clients of these kinds. ``stamps``: it knows an
    expiration by the sender's clock; ``queues``: it has any; ``life_unit_ms``: it counts a message's life in these;
    ``pulls``: its consumers ask for each message; ``delay_clock``: a delay is an instant of the producer's clock
    (``producer-wall``) or of the broker's (``broker-wall``), which is the same as long as all clocks are right;
    ``language``: that of its selectors; ``versions``: of STOMP that it speaks beside the newest;
    ``letters``: what becomes of what dies there.
    """
    hosts = [
        msgspec.structs.replace(host, via=next(iter(vias)), expiry_check=True)
        if host.role == "client" and host.via not in vias
        else host
        for host in program.hosts
    ]
    hosts = [msgspec.structs.replace(host, version="") if host.version not in versions else host for host in hosts]
    clients = [host for host in hosts if host.role == "client"]
    dropped = tuple(kind for word, kinds in _STEPS.items() if word not in capabilities for kind in kinds)
    unit_ms = life_unit_ms if "broker-ttl" in capabilities else 0
    topics_only, kinds = queues and "topic-wildcards" in capabilities, [one.kind for one in program.destinations]

    stepped, wrong = _clocks(program)
    skewed = wrong and delay_clock == "producer-wall"
    unsteady = (stepped or program.broker_host().clock.drift_ppm != 0) and delay_clock == "broker-wall"
    both = unit_ms and stamps and not wrong
    turns = itertools.count(zlib.crc32(msgspec.json.encode(program.steps)) if both else 0)

    def kept(step: AnyStep) -> AnyStep | None:
        if isinstance(step, dropped) or (isinstance(step, Probe) and step.via == "openwire" and "jms" not in vias):
            return None
        by_broker = both and isinstance(step, Send) and step.ttl_ms > 0 and next(turns) % 2 == 0
        found = _without(_alive(step, unit_ms, stamps=stamps and not by_broker), capabilities)
        if isinstance(found, Send) and found.stamp == "zero" and "jms-semantics" not in capabilities:
            found = msgspec.structs.replace(found, stamp="none")  # elsewhere 0 is a time, or wrong
        if isinstance(found, Subscribe) and not language.has(found.selector, clients[found.host % len(clients)].via):
            found = msgspec.structs.replace(found, selector="")
        if topics_only and isinstance(found, Subscribe) and found.wild and kinds[found.dest % len(kinds)] != "topic":
            found = msgspec.structs.replace(found, wild=False)
        if isinstance(found, Subscribe) and found.browser and "auto-browsers" in capabilities:
            found = msgspec.structs.replace(found, ack="auto")
        if unsteady and isinstance(found, Send):
            return msgspec.structs.replace(found, delay_ms=0, deliver_in_ms=0, preset_in_ms=0, calls="")
        if skewed and isinstance(found, Send) and found.delay_ms > 0:
            return msgspec.structs.replace(found, delay_ms=0, deliver_in_ms=found.delay_ms, calls="")
        asks = pulls and isinstance(found, Subscribe) and not found.browser
        return msgspec.structs.replace(found, prefetch=0) if asks else found

    steps = [one for step in _asking(program, pulls=pulls) if (one := mapped(step, kept)) is not None]
    steps = _waiting(program, steps) if not queues and "durables" in capabilities else steps
    destinations = [
        msgspec.structs.replace(one, kind="topic") if one.kind == "queue" and not queues else one
        for one in program.destinations
    ]
    if letters.apart:
        named = {DEAD_LETTERS: LETTERS}
        destinations = [msgspec.structs.replace(one, name=named.get(one.name, one.name)) for one in destinations]
    broker = claimed(letters.applied(program.broker), capabilities)
    return msgspec.structs.replace(program, broker=broker, hosts=hosts, steps=steps, destinations=destinations)


def _asking(program: Program, *, pulls: bool) -> list[AnyStep]:
    """The steps of a program. Consumers that ask do so at its end, all at once, and where no step of it does once it
    has settled, too, for as many messages as they would have been given.
    """
    if not pulls:
        return program.steps
    theirs = any(isinstance(step, Take) for step in program.each_step())
    clients, asking = len(program.clients()), dict[int, list[Take]]()
    found: list[AnyStep] = []
    for place, step in enumerate(program.steps, 1):
        found.append(step)
        for one in each([step]):
            if isinstance(one, Subscribe) and not one.browser:
                topic = program.destinations[one.dest % len(program.destinations)].kind == "topic"
                there = asking.setdefault(one.host % clients, [])
                window = min(one.prefetch, ASKED) if one.prefetch > 0 else ASKED
                patience_ms = SURE_MS if topic or one.selector else ASK_MS
                there.append(Take(consumer=len(there), deadline_ms=patience_ms, count=window))
        if isinstance(step, Settle) and not theirs and place < len(program.steps):
            for host, (_, takes) in enumerate(sorted(asking.items())):
                found += [msgspec.structs.replace(one, host=host, deadline_ms=ASK_MS) for one in takes]
    last = [tuple(msgspec.structs.replace(one, host=host) for one in takes) for host, takes in sorted(asking.items())]
    return found + [Parallel(tuple(last[at : at + SEQUENCES_MAX])) for at in range(0, len(last), SEQUENCES_MAX)]


def _waiting(program: Program, steps: list[AnyStep]) -> list[AnyStep]:
    """The steps for a broker without queues, where what nobody waits for is nowhere: who consumes from one first has
    had a durable subscription to its topic from the beginning on.
    """
    clients, dests, first = len(program.clients()), program.destinations, dict[tuple[int, int], Subscribe]()

    def lasting(step: AnyStep) -> AnyStep:
        if not isinstance(step, Subscribe) or step.durable or step.browser or step.wild:
            return step
        host, dest = step.host % clients, step.dest % len(dests)
        if dests[dest].kind != "queue" or dests[dest].name == DEAD_LETTERS or (host, dest) in first:
            return step
        first[host, dest] = msgspec.structs.replace(step, host=host, durable=f"q{dest}")
        return first[host, dest]

    found = [one for step in steps if (one := mapped(step, lasting)) is not None]
    return [one for came in first.values() for one in (came, Leave())] + found


def _clocks(program: Program) -> tuple[bool, bool]:
    """Whether any is stepped or stands still, and whether any is wrong at some time."""
    stepped = any(isinstance(step, Clock | Freeze) for step in program.steps)
    return stepped, stepped or any(host.clock.offset_ms or host.clock.drift_ppm for host in program.hosts)


def claimed(broker: BrokerSpec, capabilities: Collection[str]) -> BrokerSpec:
    """The same settings, but of what a capability alone gives what is claimed: its clients go by that."""
    return msgspec.structs.replace(broker, **{name: name.replace("_", "-") in capabilities for name in BY_CLAIM})


def _alive(step: AnyStep, unit_ms: int, *, stamps: bool) -> AnyStep:
    """A message's life as the broker can count it."""
    if not isinstance(step, Send) or not unit_ms:
        return step
    ttl_ms = 0 if stamps else max(0, step.ttl_ms)
    life_ms = -(-(step.life_ms or ttl_ms) // unit_ms) * unit_ms
    return msgspec.structs.replace(step, life_ms=life_ms, ttl_ms=0 if life_ms or not stamps else step.ttl_ms)


def _without(step: AnyStep, capabilities: Collection[str]) -> AnyStep:
    if not isinstance(step, Send | Subscribe):
        return step
    table = _SEND if isinstance(step, Send) else _SUBSCRIBE
    plain: dict[str, object] = {}
    for word, fields in table.items():
        if word not in capabilities:
            plain |= fields
    changed = {name: value for name, value in plain.items() if getattr(step, name) != value}
    return msgspec.structs.replace(step, **changed) if changed else step


def owns(program: Program, *, ours: bool = True) -> bool:
    """Whether a program must have the broker to itself. ``ours`` False: nobody can configure, skew, stop or operate it,
    so no step does.
    """
    hosts = len(program.hosts)
    broker = program.hosts.index(program.broker_host())
    if any(spec.name == DEAD_LETTERS for spec in program.destinations):
        return True  # what it sends there would be drained by others
    if not ours:
        return any(isinstance(step, Probe) for step in program.steps)
    if program.broker.memory_limit_bytes != BrokerSpec().memory_limit_bytes:
        return True
    # Whose clock a freeze means depends on those that stand still already.
    return any(
        isinstance(step, Restart | Pause | Operate | Probe | Freeze | Exhaust)
        or (isinstance(step, Clock) and step.host % hosts == broker)
        for step in program.steps
    )
