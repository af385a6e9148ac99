"""A program as a person reads it.

Settings, hosts and links as tables, steps as sentences with names instead of ordinals.

Decides: the words for every step, and which consumer or link an ordinal means.

Rules:

* Names are found by following the program the way every world does (``WorldState`` and ``normalise``), without
  executing it. What cannot be known without executing it is said as an ordinal, and every sentence stands beside the
  step's own JSON, so a reader never depends on our reading of it.
* Defaults are left out; every other value is shown.

Known exceptions: a broker that closes a connection by itself takes consumers away that this reading still counts. To
add a step: a function here and its entry in ``WORDS`` (a test asks for every step of the registry).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.configuration import HostSpec, LinkSpec
from brokerproof.conformance.experiment.initial_state import state_of
from brokerproof.conformance.experiment.operations import Operation
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.state import ClientState, ConsumerState, WorldState
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Ack, Disconnect, Leave, Nack, Subscribe, Take, Unsubscribe
from brokerproof.conformance.experiment.steps.fault import Clock, Cut, Freeze, Reset, Resume, Stall, Thaw
from brokerproof.conformance.experiment.steps.operation import Operate, Restart
from brokerproof.conformance.experiment.steps.parallel import HostSteps, Parallel, host_of
from brokerproof.conformance.experiment.steps.probe import Pause, Probe
from brokerproof.conformance.experiment.steps.protocol import SINGLE, Acknowledge
from brokerproof.conformance.experiment.steps.scarcity import Exhaust, Relieve
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.transaction import Begin, Commit, Rollback
from brokerproof.conformance.experiment.steps.waiting import Advance, Counters, Settle
from brokerproof.reports.render.faults import words_of
from brokerproof.reports.render.units import bytes_text, duration_text, milliseconds_text

_PREFETCHES = {0: "pulls (prefetch 0)", -1: "asks for no prefetch"}
ACK_WORDS = {"auto": "automatic ack", "client": "cumulative ack", "individual": "individual ack"}
#: Steps written out; a shrunk program has three to six.
STEPS_SHOWN = 200

Done_co = TypeVar("Done_co", bound=Operation, covariant=True)


class _Step(Protocol[Done_co]):
    """One whose operations are of one kind."""

    def normalise(self, state: WorldState) -> _Step[Done_co] | None: ...

    def resolve(self, state: WorldState) -> Done_co: ...


class StepLine(msgspec.Struct, frozen=True):
    """One step.

    Its number, its sentence, details that differ from the defaults, its JSON, and whether it is impossible by this
    reading.
    """

    number: int
    verb: str
    text: str
    details: str
    raw: str
    impossible: bool = False


class Story(msgspec.Struct, frozen=True):
    """A program, ready to be laid out. Pairs are (name, description)."""

    broker: list[tuple[str, str]]
    hosts: list[tuple[str, str, str]]
    dests: list[tuple[str, str]]
    steps: list[StepLine]
    hidden: int


def tell(program: Program) -> Story:
    """The whole program in words."""
    teller = _Teller(program)
    steps = [teller.line(number, step) for number, step in enumerate(program.steps[:STEPS_SHOWN], start=1)]
    dests = [(dest.name, str(dest.kind)) for dest in program.destinations]
    hosts = [(host.name, _host_words(program, host), _clock_words(host)) for host in program.hosts]
    return Story(_broker_words(program), hosts, dests, steps, max(0, len(program.steps) - STEPS_SHOWN))


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``3rd``, ``4th``, ``11th``."""
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


class _Teller:
    """Follows who exists while the steps go by."""

    def __init__(self, program: Program) -> None:
        self._state = state_of(program)

    def line(self, number: int, step: AnyStep) -> StepLine:
        fields = msgspec.to_builtins(step)
        verb = fields["do"]
        words = WORDS[verb](self._state, step)
        raw = msgspec.json.encode(step).decode()
        if words is None:
            return StepLine(number, verb, f"{verb}: nothing to do it with, so it is skipped", "", raw, impossible=True)
        return StepLine(number, verb, words[0], ", ".join(word for word in words[1:] if word), raw)


def _send(state: WorldState, step: Send) -> list[str] | None:
    concrete = step.normalise(state)
    if concrete is None:
        return None
    client = state.clients[concrete.host]
    first = client.next_message()
    client.sent_count += step.count
    what = first if step.count == 1 else f"{step.count} messages, {first} to {client.name}/{client.sent_count},"
    words = [f"{client.name} sends {what} to {state.dests[concrete.dest]}"]
    if step.ttl_ms:
        words.append(f"time to live {milliseconds_text(step.ttl_ms)}")
    if step.delay_ms:
        words.append(f"delivery delay {milliseconds_text(step.delay_ms)}")
    if not step.persistent:
        words.append("not persistent")
    if step.priority != 4:
        words.append(f"priority {step.priority}")
    if step.stamp != "client":
        words.append("without a timestamp" if step.stamp == "none" else "timestamp 0 (disabled)")
    if step.size != 64:
        words.append(bytes_text(step.size))
    if step.kind:
        words.append(f"kind = '{step.kind}'")
    if step.group:
        words.append(f"group {step.group}")
    return [*words, _part_of(client)]


def _part_of(client: ClientState) -> str:
    return f"in {client.transaction}" if client.transaction else ""


def _subscribe(state: WorldState, step: Subscribe) -> list[str] | None:
    concrete = step.normalise(state)
    if concrete is None:
        return None
    operation = concrete.resolve(state)
    _happens(state, operation)
    verb = "browses" if concrete.browser else "subscribes to"
    return [
        f"{operation.host} {verb} {operation.dest} as {operation.consumer}",
        _PREFETCHES.get(concrete.prefetch, f"prefetch {concrete.prefetch}"),
        f"{concrete.dispatch} dispatch",
        "" if concrete.browser else ACK_WORDS[concrete.ack],
        *_consumer_options(concrete),
    ]


def _happens(state: WorldState, operation: Operation) -> None:
    """All goes well."""
    state.begun(operation)
    state.happened(operation)


def _carried_out(state: WorldState, step: _Step[Done_co]) -> Done_co | None:
    """What a step is for this state, which it changes; None if it is impossible."""
    concrete = step.normalise(state)
    if concrete is None:
        return None
    operation = concrete.resolve(state)
    _happens(state, operation)
    return operation


def _consumer_options(step: Subscribe) -> list[str]:
    return [
        f"selector {step.selector}" if step.selector else "",
        f"durable subscription {step.durable}" if step.durable else "",
        "exclusive" if step.exclusive else "",
        "not what its own connection sends" if step.no_local else "",
        f"priority {step.priority:+d}" if step.priority else "",
    ]


def _consumer(state: WorldState, step: Take | Ack | Nack | Leave) -> ConsumerState | None:
    fitting = [client for client in state.clients if client.consumers]
    if not fitting:
        return None
    consumers = fitting[step.host % len(fitting)].consumers
    return consumers[step.consumer % len(consumers)]


def _take(state: WorldState, step: Take) -> list[str] | None:
    consumer = _consumer(state, step)
    if consumer is None or consumer.browser:
        return None
    amount = "a message" if step.count == 1 else f"up to {step.count} messages"
    wait = f"waiting at most {milliseconds_text(step.deadline_ms)}" if step.deadline_ms else "without waiting"
    return [f"{consumer.name} takes {amount} from {consumer.dest}", wait]


def _ack(state: WorldState, step: Ack) -> list[str] | None:
    consumer = _consumer(state, step)
    if consumer is None:
        return None
    which = f"its {ordinal(step.upto + 1)} unsettled message"
    if consumer.ack == "client":
        which = f"everything up to {which}"
    return [f"{consumer.name} acknowledges {which}", _modulo(step.upto), _part_of(consumer.client)]


def _nack(state: WorldState, step: Nack) -> list[str] | None:
    consumer = _consumer(state, step)
    if consumer is None:
        return None
    which = f"its {ordinal(step.upto + 1)} unsettled message"
    return [f"{consumer.name} rejects {which}", _modulo(step.upto), _part_of(consumer.client)]


def _acknowledge(state: WorldState, step: Acknowledge) -> list[str] | None:
    fitting = [
        consumer
        for client in state.clients
        for consumer in client.consumers
        if client.via == "jms" and consumer.ack == "individual" and not client.transaction
    ]
    if not fitting:
        return None
    consumer = fitting[step.consumer % len(fitting)]
    last = f"its {ordinal(step.upto + 1)} unsettled message"
    if step.type in SINGLE:
        what = f"for {last}"
    else:
        first = "the oldest" if step.open_start else f"its {ordinal(step.first + 1)}"
        what = f"from {first} to {'a message that does not exist' if step.wrong_end else last}"
    return [f"{consumer.name} sends an acknowledgement of type {step.type} {what}", _modulo(step.upto)]


def _modulo(upto: int) -> str:
    return "counting round if there are fewer" if upto else ""


def _leave(state: WorldState, step: Leave) -> list[str] | None:
    consumer = _consumer(state, step)
    if consumer is None:
        return None
    concrete = step.normalise(state)
    assert concrete is not None, "there is a consumer"
    _happens(state, concrete.resolve(state))
    if step.how == "close":
        return [f"{consumer.name} says goodbye and closes"]
    end = "socket vanishes without a goodbye" if step.how == "drop" else "process is killed"
    return [f"{consumer.client.name}'s {end}", "all its consumers are gone"]


def _fault(
    state: WorldState, step: Clock | Freeze | Thaw | Stall | Resume | Reset | Cut | Exhaust | Relieve
) -> list[str] | None:
    concrete = step.normalise(state)
    if concrete is None:
        return None
    operation = concrete.resolve(state)
    _happens(state, operation)
    if isinstance(operation, ops.Reset) and not operation.after_bytes:
        state.client(operation.link).vanish()
    return [words_of(operation, state.broker.name)]


def _advance(state: WorldState, step: Advance) -> list[str] | None:
    return None if step.normalise(state) is None else [f"{milliseconds_text(step.ms)} pass"]


def _settle(_state: WorldState, step: Settle) -> list[str] | None:
    return [f"wait until nothing moves, at most {milliseconds_text(step.deadline_ms)}, and read all counters"]


def _counters(state: WorldState, step: Counters) -> list[str] | None:
    concrete = step.normalise(state)
    if concrete is None:
        return None
    often = f"{step.count} times, every {milliseconds_text(step.every_ms)}" if step.count > 1 else ""
    return [f"read the broker's figures for {concrete.resolve(state).dest}", often]


def _begin(state: WorldState, step: Begin) -> list[str] | None:
    operation = _carried_out(state, step)
    if operation is None:
        return None
    return [f"{operation.host} begins transaction {operation.tx}"]


def _commit(state: WorldState, step: Commit) -> list[str] | None:
    operation = _carried_out(state, step)
    return None if operation is None else [f"{operation.host} commits {operation.tx}"]


def _rollback(state: WorldState, step: Rollback) -> list[str] | None:
    operation = _carried_out(state, step)
    return None if operation is None else [f"{operation.host} rolls back {operation.tx}"]


def _disconnect(state: WorldState, step: Disconnect) -> list[str] | None:
    operation = _carried_out(state, step)
    return None if operation is None else [f"{operation.host} disconnects from the broker"]


def _unsubscribe(state: WorldState, step: Unsubscribe) -> list[str] | None:
    operation = _carried_out(state, step)
    if operation is None:
        return None
    return [f"{operation.host} ends its durable subscription {operation.durable}"]


def _restart(state: WorldState, step: Restart) -> list[str] | None:
    if step.normalise(state) is None:
        return None
    broker = state.brokers[step.broker % len(state.brokers)]
    for client in state.clients:
        if client.spec.at in {broker.name, "" if broker is state.broker else broker.name}:
            client.vanish()
    name = f"broker {broker.name}" if len(state.brokers) > 1 else "broker"
    return [f"the {name} is killed and started again" if step.how == "kill" else f"the {name} is stopped and started"]


def _operate(state: WorldState, step: Operate) -> list[str] | None:
    concrete = step.normalise(state)
    if concrete is None:
        return None
    if step.op == "limit":
        return [f"an operator sets the memory limit of the broker to {bytes_text(step.limit_bytes)}"]
    operation = concrete.resolve(state)
    dest = operation.dest
    if step.op == "move":
        return [f"an operator moves what waits on {dest} to {operation.to}"]
    return [f"an operator purges {dest}" if step.op == "purge" else f"an operator resets the figures of {dest}"]


_HELLOS = {
    "good": "says hello",
    "none": "says no hello",
    "half": "says half a hello",
    "early": "sends something before its hello",
    "bad": "says a hello that must be refused",
}
_SAYINGS = {"beats": "keep-alives", "asks": "questions", "part": "parts of an unfinished frame", "nothing": ""}


def _probe(state: WorldState, step: Probe) -> list[str] | None:
    concrete = step.normalise(state)
    if concrete is None:
        return None
    who = "a raw peer comes" if step.times == 1 else f"{step.times} raw peers come"
    protocol = "STOMP" if step.via == "stomp" else "OpenWire"
    text = f"{who} over {protocol}, {_HELLOS[step.hello]} and stays for {milliseconds_text(step.ms)} at most"
    offer = f"offers {step.offer_ms[0]}, {step.offer_ms[1]} ms" if step.hello == "good" else ""
    talk = ""
    if concrete.talk_ms:
        every = milliseconds_text(concrete.every_ms)
        talk = f"sends {_SAYINGS[step.says]} every {every} for {milliseconds_text(concrete.talk_ms)}"
    return [text, offer, talk, "reads nothing" if concrete.deaf else ""]


def _pause(state: WorldState, step: Pause) -> list[str] | None:
    return None if step.normalise(state) is None else [f"the broker stands still for {milliseconds_text(step.ms)}"]


def _parallel(state: WorldState, step: Parallel) -> list[str] | None:
    concrete = step.normalise(state)
    if concrete is None:
        return None
    told = ["at once: " + "; ".join(_sequence(state.alone(host_of(steps)), steps)) for steps in concrete.of]
    return [" | ".join(told), f"interleaved as {step.interleave}" if step.interleave else ""]


def _sequence(state: WorldState, steps: HostSteps) -> list[str]:
    """What a host does while others go on, as far as it does not depend on them."""
    found = []
    for step in steps:
        verb = str(step.__struct_config__.tag)
        words = WORDS[verb](state, step)
        found.append(f"{verb} if possible" if words is None else words[0])
    return found


Words = Callable[[WorldState, Any], "list[str] | None"]
#: Step -> its words: the sentence, then details.
WORDS: dict[str, Words] = {
    "send": _send,
    "subscribe": _subscribe,
    "take": _take,
    "ack": _ack,
    "nack": _nack,
    "leave": _leave,
    "clock": _fault,
    "freeze": _fault,
    "thaw": _fault,
    "exhaust": _fault,
    "relieve": _fault,
    "stall": _fault,
    "resume": _fault,
    "cut": _fault,
    "reset": _fault,
    "advance": _advance,
    "settle": _settle,
    "counters": _counters,
    "begin": _begin,
    "commit": _commit,
    "rollback": _rollback,
    "unsubscribe": _unsubscribe,
    "disconnect": _disconnect,
    "restart": _restart,
    "operate": _operate,
    "probe": _probe,
    "pause": _pause,
    "acknowledge": _acknowledge,
    "parallel": _parallel,
}


def _host_words(program: Program, host: HostSpec) -> str:
    if host.role == "broker":
        return "broker"
    if host.role == "bridge":
        return f"bridge from {program.at(host)} to {host.to}"
    link: LinkSpec = program.link_of(host.name)
    words = [
        f"client over {'JMS' if host.via == 'jms' else 'STOMP'}{f' of {host.at}' if host.at else ''}",
        f"link latency {duration_text(link.latency_us * 1000)}",
    ]
    if host.via == "jms" and not host.expiry_check:
        words.append("expiry check switched off")
    if link.monitor is not None and link.monitor.read_ms:
        delay = milliseconds_text(link.monitor.initial_delay_ms)
        words.append(f"inactivity monitor: read {milliseconds_text(link.monitor.read_ms)}, initial delay {delay}")
    return ", ".join(words)


def _clock_words(host: HostSpec) -> str:
    clock = host.clock
    offset = milliseconds_text(clock.offset_ms, sign=True) if clock.offset_ms else "right"
    drift = f", drifting {clock.drift_ppm:+d} ppm" if clock.drift_ppm else ""
    zone = f", local time {clock.zone}" if clock.zone else ""
    return f"{offset}{drift}{zone}"


def _broker_words(program: Program) -> list[tuple[str, str]]:
    broker = program.broker
    words = [(f"generation of {area}", name) for area, name in sorted(broker.generation.items())]
    stamping = broker.timestamping
    if stamping is not None:
        parts = ["futureOnly" if stamping.future_only else "rewrites every timestamp"]
        if stamping.ttl_ceiling_ms:
            parts.append(f"ttlCeiling {milliseconds_text(stamping.ttl_ceiling_ms)}")
        if stamping.zero_expiration_override_ms:
            parts.append(f"zeroExpirationOverride {milliseconds_text(stamping.zero_expiration_override_ms)}")
        words.append(("time-stamping plug-in", ", ".join(parts)))
    words.append(("memory limit", bytes_text(broker.memory_limit_bytes)))
    if broker.persistent:
        words.append(("store", "persistent messages outlive the process"))
    if broker.dead_letter_non_persistent:
        words.append(("dead letters", "non-persistent messages too"))
    for entry in broker.policies:
        period = milliseconds_text(entry.expire_period_ms) if entry.expire_period_ms else "off"
        limit = f", memory limit {bytes_text(entry.memory_limit_bytes)}" if entry.memory_limit_bytes is not None else ""
        words.append((f"destinations {entry.match}", f"expiry sweep {period}{limit}"))
    return words
