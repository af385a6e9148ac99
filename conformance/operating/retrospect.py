"""What ``diagnose`` and ``clocks`` would have said at the worst instant of a run: the same questions, put to a history.

Rules
* The figures are those that the run read, each kept until the next one; the worst instant is the reading at which most
  of the broker's memory was in use while somebody who consumed had nothing, or the lowest in-flight count.
* For clocks it is the send of a message that may die, the first one that no application got, or was to get late; the
  client is who got it, else the one that is furthest from the broker. A delay is time on the way.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from brokerproof.conformance.experiment.configuration import is_drain
from brokerproof.conformance.experiment.history import Arrive, Consume, Counters, Fault, History, Send
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.network import histories
from brokerproof.conformance.facts.rows import Session
from brokerproof.conformance.operating import advice, inflight, starvation
from brokerproof.conformance.operating.answer import Answer
from brokerproof.conformance.operating.measuring import ABSENT, ALWAYS, FUTURE_ONLY
from brokerproof.conformance.operating.offset import Offset
from brokerproof.conformance.operating.sight import Figures, Sight

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
TOLERANCE_MS: Final = 1000
#: Our names of figures -> JMX's.
_FIGURES: Final = {
    "size": "QueueSize",
    "in_flight": "InFlightCount",
    "enqueued": "EnqueueCount",
    "dequeued": "DequeueCount",
    "dispatched": "DispatchCount",
    "memory_percent": "MemoryPercentUsage",
    "memory_bytes": "MemoryUsageByteCount",
    "memory_limit_bytes": "MemoryLimit",
    "wasted": "WastedDispatchCount",
}


class _Snapshot(Struct, eq=False):
    """All figures at one instant."""

    at_ns: int
    broker: Figures
    queues: dict[str, Figures]

    def hunger(self) -> tuple[bool, int]:
        """Whether somebody who consumes has nothing while messages wait; the memory in use while they do."""
        attended = [one for one in self.queues.values() if _attended(one)]
        percent = int(self.broker.get("MemoryPercentUsage", 0)) if attended else -1
        return any(one.get("InFlightCount", 0) == 0 for one in attended), percent

    def lowest(self) -> int:
        return min((int(one.get("InFlightCount", 0)) for one in self.queues.values()), default=0)


def _attended(figures: Figures) -> bool:
    return bool(figures.get("ConsumerCount", 0) > 0 and figures.get("QueueSize", 0) > figures.get("InFlightCount", 0))


def diagnosed(history: History, curve: str) -> tuple[int, list[Answer]] | None:
    """(the worst instant, in true nanoseconds; the answers of ``diagnose`` there); None: no figures were read."""
    facts = Facts(histories(history)[0])
    shots = _snapshots(facts)
    if not shots:
        return None
    worst = (
        max(range(len(shots)), key=lambda n: (shots[n].hunger(), n))
        if curve == "memory"
        else min(range(len(shots)), key=lambda n: (shots[n].lowest(), n))
    )
    sight = _sight(facts, shots[max(0, worst - 1) : worst + 1])
    asked = starvation.questions if curve == "memory" else inflight.questions
    return shots[worst].at_ns, asked(sight)


def _snapshots(facts: Facts) -> list[_Snapshot]:
    heal = facts.phases.get("heal")
    shots: list[_Snapshot] = []
    broker: Figures = {"MemoryLimit": facts.declared.memory_limit_bytes}
    queues: dict[str, Figures] = {}
    for reading in facts.readings:
        event = reading.event
        if heal is not None and event.seq > heal.seq:
            break
        figures = _figures(event)
        if event.dest is None:
            broker = {**broker, **figures}
            shots.append(_Snapshot(event.t1, broker, dict(queues)))
        else:
            figures.setdefault("ConsumerCount", len(_present(facts, event.dest, event.t0)))
            queues[event.dest] = figures
            if not event.at_rest:
                shots.append(_Snapshot(event.t1, broker, dict(queues)))
    return shots


def _figures(event: Counters) -> Figures:
    found = {name: getattr(event, field) for field, name in _FIGURES.items()}
    return {name: value for name, value in found.items() if value is not None}


def _present(facts: Facts, dest: str, at_ns: int) -> list[Session]:
    there = (one for one in facts.sessions.values() if one.dest.name == dest and one.opened[1] <= at_ns < one.ended_ns)
    return list(there)


def _sight(facts: Facts, shots: list[_Snapshot]) -> Sight:
    last = shots[-1]
    consumers: list[dict[str, Any]] = [
        {
            "DestinationName": name,
            "DestinationQueue": True,
            "PrefetchSize": session.prefetch,
            "DispatchAsync": not session.sync,
            "DispatchedQueueSize": sum(
                one.event.t1 <= last.at_ns and (one.settlement is None or one.settlement.t1 > last.at_ns)
                for one in session.deliveries
            ),
        }
        for name in last.queues
        for session in _present(facts, name, last.at_ns)
    ]
    return Sight(
        name=facts.broker,
        version=facts.header.broker,
        memory_rules=facts.declared.generation.get("memory", "fair"),
        seconds=(last.at_ns - shots[0].at_ns) / NS_PER_S,
        broker=[one.broker for one in shots],
        destinations={f"queue://{name}": [one.queues.get(name, {}) for one in shots] for name in last.queues},
        consumers=consumers,
    )


def compared(history: History) -> tuple[int, str, list[Answer]] | None:
    """(the instant, the client, the answers of ``clocks`` for the life that was sent); None: nothing may die. In a
    network it is the last broker that is asked.
    """
    history = histories(history)[-1]
    facts = Facts(history)
    mortal = [send.event for send in facts.sends.values() if send.mortal or send.timed]
    if not mortal or not facts.broker_clock.known:
        return None
    taken = {one.message for one in history.events if isinstance(one, Consume) and not is_drain(one.host)}
    event = next((one for one in mortal if one.message not in taken), mortal[0])
    instants = [event.t0]
    if not event.expiration_ms:  # only clocks that are set while it waits can matter
        instants += [one.t1 for one in history.events if isinstance(one, Fault) and one.fault == "clock"]
    seen = [(at, _offsets(facts, at, event)) for at in instants]
    at, known = max(seen, key=lambda entry: max((abs(one.middle_ms) for one in entry[1].values()), default=-1))
    if not known:
        return None
    got = [one.host for one in history.events if isinstance(one, Arrive) and one.message == event.message]
    furthest = max(known, key=lambda name: (abs(known[name].middle_ms), name))
    client = next((name for name in got if name in known), furthest)
    stamping = facts.declared.timestamping
    if stamping is None or (event.network and not stamping.process_network_messages):
        mode = ABSENT
    else:
        mode = FUTURE_ONLY if stamping.future_only else ALWAYS
    ttl_ms = event.ttl_ms or (event.expiration_ms - event.timestamp_ms if event.timestamp_ms else 0)
    sender = known.get(event.host) if event.host != client else None
    return at, client, advice.answers(known[client], mode, TOLERANCE_MS, max(ttl_ms, 0) or None, sender)


def _offsets(facts: Facts, at: int, event: Send) -> dict[str, Offset]:
    """The broker's clock minus each client's, where both are known."""
    trip_ms = (event.t1 - event.t0) / NS_PER_MS + (event.delay_ms or 0)
    names = (name for name in facts.clients if name in facts.clocks and not is_drain(name))
    found = {name: _offset(facts, name, at, trip_ms) for name in names}
    return {name: offset for name, offset in found.items() if offset is not None}


def _offset(facts: Facts, client: str, at: int, trip_ms: float) -> Offset | None:
    """The broker's clock minus a client's, at an instant."""
    mine, theirs = facts.wall(client, (at, at)), facts.wall(facts.broker, (at, at))
    if mine is None or theirs is None:
        return None
    low, high = theirs[0] - mine[1], theirs[1] - mine[0]
    return Offset(low / NS_PER_MS, high / NS_PER_MS, "the run's clock samples", 1, trip_ms)
