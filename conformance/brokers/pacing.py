"""How long programs take, and which live faster than the machine (``chaos/rates.py``).

Rules
* Everything that a machine does takes as many times as long by a faster clock: a program that asks for shorter
  durations than ``LEAST_MS`` of real time would show nothing but that, and one that takes little time gains nothing.
* Not faster: clocks that are stepped, stand still or drift; several brokers (bridges keep real time); links whose bytes
  are counted in real time; a machine that has too little of something; dialogues, which wait for answers only; many
  raw peers, of which a busy machine connects the last when the first have waited for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from brokerproof.conformance.experiment.steps.consume import Take
from brokerproof.conformance.experiment.steps.fault import Clock, Freeze, Thaw
from brokerproof.conformance.experiment.steps.probe import Pause, Probe
from brokerproof.conformance.experiment.steps.scarcity import Exhaust
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.waiting import Advance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerproof.conformance.experiment.program import Program

#: A take with more is answered, and its deadline only patience with a slow machine.
PATIENCE_MS: Final = 5_000
#: What a message takes to be sent and drained that is beyond the first ones.
MESSAGE_MS, FEW = 5, 2000
#: The shortest duration of a program that lives faster, in real time, and the shortest such program in its own.
LEAST_MS: Final = 100
LONG_MS: Final = 5_000
#: Few different ones: who shares a broker lives as fast.
TIMES: Final = (5, 10, 20, 50)
#: Durations that are patience, or none at all.
_NONE: Final = frozenset({"deadline_ms", "offset_ms", "jump_ms"})


def real_ms(program: Program, times: int = 1) -> int:
    """How much real time the steps of a program may take, about, that lives so many times as fast: a take with more
    than ``PATIENCE_MS`` is one that is answered, when the longest delay is over, and its deadline only patience with a
    slow machine. What is sent crosses the slowest link; thousands of messages take their time, too.
    """
    sends = [step for step in program.each_step() if isinstance(step, Send)]
    waits = [step.ms for step in program.each_step() if isinstance(step, Advance)]
    takes = [step.deadline_ms for step in program.each_step() if isinstance(step, Take)]
    stays = [step.ms for step in program.steps if isinstance(step, Pause | Probe)]
    patience_ms = max((ms for ms in takes if ms > PATIENCE_MS), default=0)
    delay_ms = min(patience_ms, max([0, *(send.delay_ms for send in sends)]))
    rate = min((rate for link in program.links if (rate := link.rate())), default=0)
    crossing_ms = 1000 * sum(send.size * send.count for send in sends) // rate if rate else 0
    many_ms = MESSAGE_MS * max(0, sum(send.count for send in sends) - FEW)
    asked_ms = sum(waits) + sum(ms for ms in takes if ms <= PATIENCE_MS) + sum(stays) + delay_ms
    return asked_ms // times + crossing_ms + many_ms


def times_of(program: Program, most: int) -> int:
    """How many times as fast as the machine a program shows the same, at most so many."""
    steps = list(program.each_step())
    if len(program.brokers()) > 1 or any(isinstance(step, Clock | Freeze | Thaw | Exhaust) for step in steps):
        return 1
    if any(host.clock.drift_ppm for host in program.hosts) or any(
        link.rate() or link.modes() for link in program.links
    ):
        return 1
    waits = [step for step in steps if isinstance(step, Advance | Pause | Probe)]
    probes = [step for step in waits if isinstance(step, Probe)]
    if any(step.dialogues or step.times > 1 for step in probes) or sum(step.ms for step in waits) < LONG_MS:
        return 1
    borne = min(_durations(msgspec.to_builtins(program))) // LEAST_MS
    return max([times for times in (*TIMES, most) if times <= min(borne, most)], default=1)


def _durations(told: Any) -> Iterator[int]:
    """All durations that a program asks for."""
    if isinstance(told, dict):
        for name, value in told.items():
            if isinstance(value, int) and value > 0 and (name == "ms" or name.endswith("_ms")) and name not in _NONE:
                yield value
            yield from _durations(value)
    elif isinstance(told, list | tuple):
        for one in told:
            yield from _durations(one)
