"""Losing one's voice: what a program exercises on the reference broker, in virtual time, and not on the broker in
question. A broker that refuses, or never answers, breaks few promises: it leaves nothing to judge.

Rules
* The reference broker runs the same program under the settings that the broker's history declares.
* A requirement fell silent when no run of the broker decided about it, at least one should have, and in that run an
  answer differed before the faults were lifted. Where all answers are the same, the world's timing made the difference.
* A promise excuses: what is not applicable, not run or a known failure has not fallen silent, nor has what differs
  first in an answer that is known not to come (``UNANSWERED``), or in a send for which there may be no room. So does a
  step that was skipped there only, and before, or refused by its client's library, or left out of a transaction that
  the library's scope does not reach: its client cannot ask that. Who accepts what the reference refuses has a voice,
  and so has who gives what it still holds back.
* What cannot be told of such a history at all is nobody's silence: only virtual time is exact enough for some claims,
  some figures nobody can read of a broker, and a library that settles outside of transactions leaves nothing in them to
  judge, wherever answers first differ.
* A fault that only its world could play (``exhaust``) excuses what comes after it: the reference broker ran without.
  So does a connection that the reference broker's client lost for a silence that no stall lasted in the other's world.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from brokerproof.conformance.experiment.configuration import BrokerSpec
from brokerproof.conformance.experiment.history import (
    Ack,
    Browse,
    Connect,
    Consume,
    Counters,
    Event,
    Fault,
    History,
    Nack,
    Phase,
    Skipped,
)
from brokerproof.conformance.experiment.operations import UNSUPPORTED
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult, Silence
from brokerproof.conformance.experiment.traits import Traits
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.facts.facts import Facts
from brokerproof.conformance.facts.links import is_inactivity
from brokerproof.conformance.facts.permission import maybe_without_room
from brokerproof.conformance.rules.judge import judge_history
from brokerproof.conformance.running.engine import run_program

#: What names the object of an event, in the order in which it is said.
_NAMES: Final = ("op", "message", "messages", "consumer", "durable", "dest", "tx")
#: Every request is answered.
UNANSWERED: Final = "GEN-110"
#: What a reading may say.
FIGURES: Final = tuple(
    name for name in Counters.__struct_fields__ if name not in {*Event.__struct_fields__, "dest", "at_rest"}
)
_SPEAKS: Final = {VerdictKind.SATISFIED, VerdictKind.VIOLATED, VerdictKind.INCONCLUSIVE}


def lost_voice(result: RunResult) -> dict[str, tuple[str, str]]:
    """Requirement that this run says nothing of and the reference broker's run does -> the first answer that differed:
    the reference broker's, and this one's.
    """
    if result.history is None:
        return {}
    quiet = {verdict.requirement for verdict in result.verdicts if verdict.verdict is VerdictKind.NOT_EXERCISED}
    if not quiet:
        return {}
    sound = run_program(as_declared(result.program, result.history), result.name, wanted=sorted(quiet))
    lost = _spoken(sound.verdicts)
    assert sound.history is not None, "a run in virtual time has a history"
    difference = first_difference(sound.history, result.history) if lost else None
    if difference is None or (difference[1].endswith(" unknown") and UNANSWERED in _known(result.verdicts)):
        return {}
    expected, found = difference
    if _may_lack_room(result.history, found) or _stalled_for_less(sound.history, result.history, expected):
        return {}
    seen = as_observed(sound.history, result.history)
    if seen is not sound.history:
        lost = _spoken(judge_history(seen, wanted=lost))
    return dict.fromkeys(lost, difference)


def _spoken(verdicts: list[Verdict]) -> list[str]:
    return [verdict.requirement for verdict in verdicts if verdict.verdict in _SPEAKS]


def _known(verdicts: list[Verdict]) -> set[str]:
    return {verdict.requirement for verdict in verdicts if verdict.verdict is VerdictKind.KNOWN_FAILURE}


def _may_lack_room(history: History, answer: str) -> bool:
    """Whether an answer is none to a send for which there may have been no room, or refuses one that can never fit."""
    words = answer.split(" ")
    waits = words[-1] == "unknown"
    if words[1] != "send" or not (waits or " fail (" in answer):
        return False
    facts = Facts(history)
    send = facts.sends.get(words[2])
    if send is None:
        return False
    limits = (facts.declared.memory_limit_bytes, send.dest.applied.memory_limit_bytes)
    return maybe_without_room(facts, send.event) if waits else any(0 < one < send.event.size for one in limits)


def _stalled_for_less(sound: History, other: History, expected: str) -> bool:
    """Whether a client lost its connection to the reference broker for a silence that no stall of its link lasted in
    the other's world.
    """
    host, _, answer = expected.partition(": ")
    ours, theirs = Facts(sound).clients.get(host), Facts(other).clients.get(host)
    if not answer.startswith("leave") or ours is None or theirs is None:
        return False
    silences = [
        close.t0 - low
        for close in ours.closes
        if is_inactivity(close)
        for low, high in (stall.span() for stall in ours.stalls)
        if low < close.t0 < high
    ]
    stalls = [high - low for low, high in (stall.span() for stall in theirs.stalls)]
    return bool(silences) and max(stalls, default=0) < min(silences)


def as_observed(sound: History, other: History) -> History:
    """A history as the other's world, its libraries, and whoever reads its figures would have it."""
    told = {event.host: event.traits for event in other.events if isinstance(event, Connect) and event.traits}
    unread = _figures(sound) - _figures(other) if _figures(other) else set()
    scoped = any(one.transaction_scope != "connection" for one in told.values())
    if other.header.world == sound.header.world and not scoped and not unread:
        return sound
    events = [_as_told(event, told[event.host]) if event.host in told else event for event in sound.events]
    events = [_as_read(event, unread) if isinstance(event, Counters) else event for event in events]
    return History(msgspec.structs.replace(sound.header, world=other.header.world), events)


def _figures(history: History) -> set[tuple[bool, str]]:
    """The figures that anybody read, of the broker's own and of destinations."""
    read = [event for event in history.events if isinstance(event, Counters)]
    return {(one.dest is None, name) for one in read for name in FIGURES if getattr(one, name) is not None}


def _as_read(event: Counters, unread: set[tuple[bool, str]]) -> Event:
    return msgspec.structs.replace(event, **{name: None for own, name in unread if own is (event.dest is None)})


def _as_told(event: Event, traits: Traits) -> Event:
    if isinstance(event, Connect):
        return msgspec.structs.replace(event, traits=traits)
    if isinstance(event, Ack | Nack) and traits.transaction_scope != "connection":
        return msgspec.structs.replace(event, tx=None)
    return event


def as_declared(program: Program, history: History) -> Program:
    """The program for a broker that is what this history says of its broker."""
    declared = history.header.declared
    settings = {name: getattr(declared, name) for name in BrokerSpec.__struct_fields__}
    return msgspec.structs.replace(program, broker=BrokerSpec(**settings))


def first_difference(sound: History, other: History) -> tuple[str, str] | None:
    """The first answer of the sound broker that is not the other's, and the other's; None: they are the same. Hosts are
    compared one by one: between them the order of events is the world's.
    """
    found: list[tuple[int, str, str]] = []
    theirs, skipped, alone = _answers(other), _first_skipped(sound, other), _first_fault_alone(sound, other)
    for host, answers in _answers(sound).items():
        here = theirs.get(host, [])
        for index, (seq, text) in enumerate(answers):
            at, said = here[index] if index < len(here) else (other.events[-1].seq, f"{host}: nothing")
            if said != text:
                heard = " fail (" in text or (_gives(said) and not _gives(text))
                if at < skipped and seq < alone and not heard and not _is_clients(text, said):
                    found.append((seq, text, said))
                break
    return min(found)[1:] if found else None


def _gives(answer: str) -> bool:
    return answer.split(" ")[1] == "consume"


def _is_clients(text: str, said: str) -> bool:
    """Whether an answer differs for what its client is: it could not ask that, or not in a transaction."""
    words = text.split(" ")
    outside = words[1] == "ack" and said.split(" ") == [*words[:-2], words[-1]]
    return outside or f" fail ({UNSUPPORTED}: " in said


def _first_skipped(sound: History, other: History) -> int:
    """The first step that was skipped by the other broker's client only; past the end where there is none."""
    possible = [event.step for event in sound.events if isinstance(event, Skipped)]
    found = [event.seq for event in other.events if isinstance(event, Skipped) and event.step not in possible]
    return min(found, default=other.events[-1].seq + 1)


def _first_fault_alone(sound: History, other: History) -> int:
    """Where the sound broker's world skipped a fault that the other's played; past the end where there is none. The
    other may have skipped its like: the same thing was scarce already.
    """
    played = {event.fault for event in other.events if isinstance(event, Fault)}
    skipped = Counter(msgspec.json.encode(event.step) for event in other.events if isinstance(event, Skipped))
    ours = [event for event in sound.events if isinstance(event, Skipped) and event.step["do"] in played]
    asked = Counter(msgspec.json.encode(event.step) for event in ours)
    found = [event.seq for event in ours if (step := msgspec.json.encode(event.step)) and asked[step] > skipped[step]]
    return min(found, default=sound.events[-1].seq + 1)


def _answers(history: History) -> dict[str, list[tuple[int, str]]]:
    """Host -> what it was answered and given, in order, before the run heals."""
    found: dict[str, list[tuple[int, str]]] = {}
    for event in history.events:
        if isinstance(event, Phase) and event.name == "heal":
            break
        text = _answer(event)
        if text:
            found.setdefault(event.host, []).append((event.seq, f"{event.host}: {text}"))
    return found


def _answer(event: Event) -> str:
    kind = str(event.__struct_config__.tag)
    if isinstance(event, Consume | Browse):
        return _named(kind, event)
    result, refusal = getattr(event, "result", ""), getattr(event, "refusal", None)
    if not result:
        return ""
    return f"{_named(kind, event)} {result}" + (f" ({refusal})" if refusal else "")


def _named(kind: str, event: Event) -> str:
    values = [getattr(event, name, None) for name in _NAMES]
    said = [",".join(value) if isinstance(value, list) else str(value) for value in values if value]
    return " ".join([kind, *said])


class Voices:
    """What all runs of a broker together speak of."""

    def __init__(self) -> None:
        self._spoken: dict[str, bool] = {}
        self._lost: dict[str, Silence] = {}

    def hear(self, result: RunResult) -> None:
        """One more run; ``result.lost`` is what ``lost_voice`` found."""
        mute = {VerdictKind.NOT_EXERCISED}
        if result.history is None:  # that one program cannot be played says nothing of others
            mute.add(VerdictKind.NOT_APPLICABLE)
        for verdict in result.verdicts:
            if verdict.verdict not in mute:
                self._spoken[verdict.requirement] = True
        for requirement, (expected, found) in result.lost.items():
            self._lost.setdefault(requirement, Silence(requirement, result.run, expected, found))

    def silent(self) -> list[Silence]:
        """Requirements that fell silent, by id."""
        return [self._lost[name] for name in sorted(self._lost) if name not in self._spoken]
