"""What a reproducer does, resolved: a program's operations as a broker that keeps its promises answers them.

Rules
* The reference broker plays the program in virtual time; its operations, with names instead of ordinals, are what is
  exported. What a reproducer expects (``expectations.py``) comes from the same run.
* What no client alone can do (a broker's clock, a stalled link, a restart, an operator) is refused, with the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from brokerproof.conformance.experiment import history as events
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.steps.fault import Clock
from brokerproof.conformance.experiment.steps.waiting import Advance
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.steps import AnyStep
    from brokerproof.conformance.worlds.port import Outcome, Waiting

#: What a client does, and what has no effect on it; a client's clock shows in its stamps.
PLAIN: Final = (
    "subscribe",
    "send",
    "take",
    "ack",
    "nack",
    "leave",
    "unsubscribe",
    "begin",
    "commit",
    "rollback",
    "advance",
)
LOOKS: Final = ("settle", "counters")
#: By how much a real run is slower than virtual time, wait by wait.
JITTER_MS: Final = 50
#: How long a take waits at least for what the reference broker delivers, and a settle for what may still move.
PATIENCE_MS: Final = 3000
QUIET_MS: Final = 500
#: Options of a message that only a client library can give it.
_OWN: Final = ("life_ms", "deliver_in_ms", "preset_in_ms", "reply", "network", "again", "calls")


class NotExpressible(UsageError):
    """A format cannot say something that the program does. The text names the step or the host."""


class Act(msgspec.Struct, frozen=True):
    """One operation. ``step``: which step of the program asked for it, from 1; ``skew_ms``: its host's clock;
    ``connects``: its host must connect first; ``message``: what a ``Take`` gave.
    """

    operation: ops.Operation
    step: int
    skew_ms: int = 0
    connects: bool = False
    message: str | None = None


class Script(msgspec.Struct, frozen=True):
    """``acts`` in order; ``seen``: what the reference broker's run had to show before it healed."""

    name: str
    program: Program
    acts: list[Act]
    seen: list[events.Event]

    def sends(self) -> dict[str, events.Send]:
        """By message."""
        return {event.message: event for event in self.seen if isinstance(event, events.Send)}

    def arrivals(self) -> list[events.Arrive]:
        """In order, of the program's own messages."""
        return [event for event in self.seen if isinstance(event, events.Arrive) and event.message]

    def taken(self) -> list[tuple[str, str]]:
        """(consumer, message), in order."""
        return [
            (act.operation.consumer, act.message)
            for act in self.acts
            if isinstance(act.operation, ops.Take) and act.message
        ]

    def consumers(self) -> list[str]:
        """All that it attaches."""
        return [act.operation.consumer for act in self.acts if isinstance(act.operation, ops.Subscribe)]

    def acknowledged(self) -> list[str]:
        """Messages whose settlement was confirmed, outside of transactions."""
        settled = [one for one in self.seen if isinstance(one, events.Ack) and one.result == "ok" and not one.tx]
        return list(dict.fromkeys(name for one in settled for name in one.messages))


class _Noting(SimulatedWorld):
    """The simulated world; it keeps what it carries out until it heals."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[ops.Operation, Outcome]] = []

    def _execute(self, operation: ops.Operation) -> Waiting[Outcome]:
        outcome = yield from super()._execute(operation)
        self.done.append((operation, outcome))
        return outcome


def resolved(name: str, program: Program) -> Script:
    """A program's script. Raises ``NotExpressible`` for what no client alone can do."""
    if program.bridges():
        raise NotExpressible(f"{name}: it is about several brokers, and a reproducer has one")
    for host in program.hosts:
        if host.role == "broker" and (host.clock.offset_ms or host.clock.drift_ppm):
            raise NotExpressible(f"{name}: the broker's clock ({host.name}) is skewed, which no client can do")
        if host.clock.zone_hours:
            raise NotExpressible(f"{name}: {host.name} is in another time zone, which a reproducer cannot be")
        if host.clock.drift_ppm:
            raise NotExpressible(f"{name}: the clock of {host.name} drifts, which a reproducer cannot do")
    for link in program.links:
        if link.monitor or link.bytes_per_second:
            raise NotExpressible(f"{name}: the link of {link.client} has a monitor or a speed, which need a proxy")
    for dest in program.destinations:
        if dest.kind == "temporary":
            raise NotExpressible(f"{name}: {dest.name} is a temporary queue, whose name is known at run time only")
    for number, step in enumerate(program.steps, start=1):
        _check(f"{name}: step {number} ({_word(step)})", program, step)
    script = _played(name, program)
    if _outcome(script) != _outcome(_played(name, _slower(program))):
        raise NotExpressible(f"{name}: what arrives hangs on less than {JITTER_MS} ms, which no real clock can promise")
    return script


def _slower(program: Program) -> Program:
    """The same where every wait is a little longer."""
    steps = [
        msgspec.structs.replace(one, ms=one.ms + JITTER_MS) if isinstance(one, Advance) else one
        for one in program.steps
    ]
    return program.with_steps(steps)


def _outcome(script: Script) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    return script.taken(), sorted((event.consumer, event.message) for event in script.arrivals())


def _played(name: str, program: Program) -> Script:
    world = _Noting()
    world.open(program)
    acts: list[Act] = []
    skews = {host.name: host.clock.offset_ms for host in program.hosts}
    connected: set[str] = set()
    try:
        for number, step in enumerate(program.steps, start=1):
            mark = len(world.done)
            world.apply(step)
            acts += _acts(world.done[mark:], number, skews, connected)
        return Script(name, program, acts, list(world.recorder.events))
    finally:
        world.shut()


def _word(step: AnyStep) -> str:
    return str(type(step).__struct_config__.tag)


def _check(where: str, program: Program, step: AnyStep) -> None:
    if isinstance(step, Clock):
        if program.hosts[step.host % len(program.hosts)].role == "broker":
            raise NotExpressible(f"{where}: the broker's clock jumps, which no client can do")
    elif _word(step) not in PLAIN + LOOKS:
        raise NotExpressible(f"{where}: no client can do that; `brokerproof replay` can")
    if getattr(step, "browser", False):
        raise NotExpressible(f"{where}: a browser's messages are others' too; `brokerproof replay` tells them apart")
    for field in _OWN:
        if getattr(step, field, None):
            raise NotExpressible(f"{where}: a message with {field} cannot be written into a file")


def _acts(
    done: list[tuple[ops.Operation, Outcome]], number: int, skews: dict[str, int], connected: set[str]
) -> Iterator[Act]:
    for operation, outcome in done:
        if isinstance(operation, ops.ClockJump):
            skews[operation.host] += operation.jump_ms
        elif isinstance(operation, ops.ClientOperation):
            host = operation.host
            yield Act(operation, number, skews[host], host not in connected, outcome.message)
            connected.add(host)
            if isinstance(operation, ops.Leave) and operation.consumer is None:
                connected.discard(host)
        elif not isinstance(operation, ops.ReadCounters):
            yield Act(operation, number)
