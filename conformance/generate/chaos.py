"""Random chaos: faults drawn into any program, as wild as a profile says.

Rules
* The same program, profile and seed give the same program. Its faults are steps like any other, so they replay and
  shrink with it; only ``skew``, ``drift`` and what ails a link for good begin with the frame.
* A fault that lasts begins before some step and ends some steps later, after its time: others happen meanwhile.
* Every clock that was put away is put back, and every link flows again, before the program ends: what is judged of the
  drain is the healed system. A drift, and a link that is slow, sliced or jittery, last; the drain has a clock and a
  link of its own.
* Links go wrong just before their client sends: a stall that holds nothing back leaves no evidence. The program's own
  steps are turned to whom the faults have left (``sketch.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from brokerproof.conformance.experiment.chooser import Chooser, SeededChooser
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.steps import (
    Advance,
    AnyStep,
    Clock,
    Exhaust,
    Freeze,
    Leave,
    Pause,
    Relieve,
    Reset,
    Restart,
    Resume,
    Send,
    Stall,
    Thaw,
)
from brokerproof.conformance.experiment.steps.scarcity import KINDS, LEFT
from brokerproof.conformance.generate.frame import one_of
from brokerproof.conformance.generate.sketch import Sketch

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.program import Program

#: Faults that end at once, or by themselves, and those that last to the end of the program.
_SHORT: Final = ("pause", "stop", "kill", "drop", "reset", "sever", "crash")
_ENDLESS: Final = ("drift", "slow", "jitter", "slices")
#: Steps during which a fault lasts, at most.
_SPAN: Final = 8
#: Messages of a send behind a stall: each of them is waited for.
_BEHIND_STALL: Final = 3
#: Faults of links, which nobody sees where nothing travels.
_OF_LINKS: Final = ("stall", "one-way", "half-open")
_RATES_BYTES: Final = (100_000, 20_000)
_DRIFTS_PPM: Final = (100, -100)
#: Of clocks: one at a time for each host.
_OF_CLOCKS: Final = ("jump", "freeze")
_JITTERS_US: Final = (5000, 20_000, 50_000)
_SLICES_BYTES: Final = (1000, 100)
_SEVERED_BYTES: Final = (300, 1000, 60, 5000, 20_000)
_AMOUNTS: Final = {**LEFT, "drift": _DRIFTS_PPM, "slow": _RATES_BYTES, "sever": _SEVERED_BYTES, "jitter": _JITTERS_US,
                   "slices": _SLICES_BYTES}  # fmt: skip
#: Of a link, what lasts to the end.
_MODES: Final = {"slow": "bytes_per_second", "jitter": "jitter_us", "slices": "slice_bytes"}


class Profile(NamedTuple):
    """How wild: faults of a program and how many of them at the same time, at most; how long one lasts; how far clocks
    are put away; fault -> its weight.
    """

    faults: int
    together: int
    lasting_ms: tuple[int, ...]
    jumps_ms: tuple[int, ...]
    weights: dict[str, int]


#: ``skew`` (from the beginning), ``jump``, ``freeze``, ``drift`` of a clock · ``stall`` of a client's link, ``one-way``
#: (silence in one direction), ``half-open`` (the client is gone, the broker cannot know), ``slow`` (limited bandwidth),
#: ``jitter`` (late by more or less), ``slices`` (bytes come in small pieces) · ``reset`` by the network, ``sever`` (the
#: same when so many bytes have passed), ``drop`` of a client's socket, ``crash`` of its process · ``pause``, ``stop``
#: and ``kill`` of the broker, which comes back · of ``descriptors``, ``processor``, ``disk`` or ``memory`` its process
#: has too little for a while.
# fmt: off
_EVERYTHING: Final = {"skew": 3, "jump": 4, "freeze": 3, "drift": 1, "stall": 4, "one-way": 4, "half-open": 2,
                      "slow": 2, "jitter": 2, "slices": 2, "drop": 2, "reset": 3, "sever": 3, "crash": 2, "pause": 2,
                      "stop": 1, "kill": 2}
# fmt: on
PROFILES: Final = {
    "calm": Profile(
        faults=2,
        together=1,
        lasting_ms=(100, 300),
        jumps_ms=(1000, -1000, 100),
        weights={"skew": 3, "jump": 2, "stall": 3, "one-way": 2, "drop": 1},
    ),
    "nightly": Profile(
        faults=5,
        together=2,
        lasting_ms=(300, 100, 1500),
        jumps_ms=(1000, -1000, 60_000, -60_000, 300_000, -300_000),
        weights=_EVERYTHING,
    ),
    "cruel": Profile(
        faults=12,
        together=5,
        lasting_ms=(300, 50, 1500, 4000),
        jumps_ms=(1000, -1000, 1, 300_000, -300_000, 3_600_000, -3_600_000, 86_400_000, -86_400_000),
        weights=_EVERYTHING | {"descriptors": 3, "processor": 2, "disk": 1, "memory": 1},
    ),
}


class Fault(NamedTuple):
    """One that is wanted: ``begin`` and ``end`` are places before steps, ``who`` an ordinal, ``amount`` milliseconds of
    a jump, parts per million, microseconds, bytes or bytes per second.
    """

    kind: str
    begin: int
    end: int
    ms: int
    who: int
    amount: int
    toward: str


def check_chaos(profile: str | None) -> None:
    """Raises ``UsageError`` for a profile that does not exist."""
    if profile is not None and profile not in PROFILES:
        raise UsageError(f"--chaos {profile!r} is no profile; one of {', '.join(PROFILES)}")


def chaotic(program: Program, profile: str, seed: int) -> Program:
    """A program with faults of a profile drawn into it."""
    chooser, wild = SeededChooser(~seed), PROFILES[profile]
    faults = [_draw(chooser, wild, program) for _ in range(1 + chooser.below(wild.faults))]
    return _Composer(chooser, _framed(program, faults), faults, wild.together).compose()


def _draw(chooser: Chooser, profile: Profile, program: Program) -> Fault:
    kind = one_of(chooser, [kind for kind, weight in profile.weights.items() for _ in range(weight)])
    clients = len(program.clients())
    who = chooser.below(len(program.hosts) if kind in _OF_CLOCKS else clients)
    begin = 0 if kind == "skew" else chooser.below(len(program.steps) + 1)
    sends = [at for at, one in enumerate(program.steps) if isinstance(one, Send) and one.host % clients == who]
    if kind in _OF_LINKS and sends:
        begin = one_of(chooser, sends)
    end = min(len(program.steps), begin + 1 + chooser.below(_SPAN))
    amounts = _AMOUNTS.get(kind, profile.jumps_ms)
    toward = one_of(chooser, ("client", "broker")) if kind in ("one-way", "sever") else "both"
    return Fault(kind, begin, end, one_of(chooser, profile.lasting_ms), who, one_of(chooser, amounts), toward)


def _framed(program: Program, faults: list[Fault]) -> Program:
    """The program's frame, with what lasts from the beginning; a broker that comes back keeps what it had stored."""
    replace = msgspec.structs.replace
    hosts, links = list(program.hosts), list(program.links)
    for fault in faults:
        name = program.clients()[fault.who % len(program.clients())].name
        host = next(place for place, one in enumerate(hosts) if one.name == name)
        clock = hosts[host].clock
        if fault.kind == "skew":
            hosts[host] = replace(hosts[host], clock=replace(clock, offset_ms=clock.offset_ms + fault.amount))
        elif fault.kind == "drift":
            hosts[host] = replace(hosts[host], clock=replace(clock, drift_ppm=fault.amount))
        elif fault.kind in _MODES:
            mode = {_MODES[fault.kind]: fault.amount}
            links = [replace(one, **mode) if one.client == name else one for one in links]
    broker = program.broker
    if any(fault.kind in ("stop", "kill") for fault in faults):
        broker = replace(broker, persistent=True)
    return replace(program, hosts=hosts, links=links, broker=broker)


class _Composer:
    """Puts faults between the steps of a program."""

    def __init__(self, chooser: Chooser, program: Program, faults: list[Fault], together: int) -> None:
        self._chooser = chooser
        self._program = program
        self._faults = faults
        self._together = together
        self._sketch = Sketch(program)
        self._steps: list[AnyStep] = []
        #: Hosts with a clock, in the order in which steps count them, and those whose clock stands still.
        self._clocks = [host.name for host in program.hosts if host.role != "bridge"]
        self._frozen: list[str] = []

    def compose(self) -> Program:
        """The whole program."""
        lasting: list[Fault] = []
        for at in range(len(self._program.steps) + 1):
            for fault in [one for one in lasting if one.end == at]:
                lasting.remove(fault)
                self._add(Advance(ms=fault.ms))
                self._end(fault)
            for fault in self._faults:
                if fault.begin != at or fault.kind in _ENDLESS:
                    continue
                if fault.kind in _SHORT:
                    self._happen(fault)
                elif fault.kind == "skew" or (len(lasting) < self._together and self._begin(fault, lasting)):
                    lasting.append(fault)
            if at < len(self._program.steps):
                self._add(self._program.steps[at])
        for fault in lasting:
            self._add(Advance(ms=fault.ms))
            self._end(fault)
        return self._program.with_steps(self._steps)

    def _add(self, step: AnyStep) -> None:
        clients = self._sketch.clients
        if isinstance(step, Send) and clients[step.host % len(clients)].stalled:
            step = msgspec.structs.replace(step, count=min(step.count, _BEHIND_STALL))
        self._steps += self._sketch.fitted(self._chooser, step)

    def _begin(self, fault: Fault, lasting: list[Fault]) -> bool:
        """Whether it could begin."""
        if fault.kind in _OF_CLOCKS:
            return self._put_away(fault, lasting)
        if fault.kind in KINDS:
            if fault.kind in [one.kind for one in lasting]:
                return False
            self._add(Exhaust(what=fault.kind, left=fault.amount))  # type: ignore[arg-type]  # of two literals
            return True
        client = self._sketch.clients[fault.who]
        if client.stalled:
            return False
        link = [one for one in self._sketch.clients if not one.stalled].index(client)
        self._add(Stall(link=link, toward=fault.toward))  # type: ignore[arg-type]  # drawn from literals
        if fault.kind == "half-open":
            self._lose(fault.who, "kill")
        return True

    def _put_away(self, fault: Fault, lasting: list[Fault]) -> bool:
        """A clock jumps, or stands still; one that stands still would not jump."""
        host = self._host_of(fault)
        others = [one.kind for one in lasting if one.kind in ("skew", *_OF_CLOCKS) and self._host_of(one) == host]
        if fault.kind == "jump":
            if "freeze" in others:
                return False
            self._add(Clock(host=fault.who, jump_ms=fault.amount))
            return True
        if others:
            return False
        self._add(Freeze(host=[one for one in self._clocks if one not in self._frozen].index(host)))
        self._frozen.append(host)
        return True

    def _host_of(self, fault: Fault) -> str:
        """Whose clock a fault means."""
        if fault.kind == "skew":
            return self._program.clients()[fault.who].name
        return self._clocks[fault.who % len(self._clocks)]

    def _end(self, fault: Fault) -> None:
        if fault.kind == "freeze":
            still = self._host_of(fault)
            self._add(Thaw(host=[one for one in self._clocks if one in self._frozen].index(still)))
            self._frozen.remove(still)
        elif fault.kind in KINDS:
            self._add(Relieve(what=fault.kind))  # type: ignore[arg-type]  # likewise
        elif fault.kind == "jump":
            self._add(Clock(host=fault.who, jump_ms=-fault.amount))
        elif fault.kind == "skew":
            name = self._program.clients()[fault.who].name
            host = next(place for place, one in enumerate(self._program.hosts) if one.name == name)
            self._add(Clock(host=host, jump_ms=-fault.amount))
        elif (client := self._sketch.clients[fault.who]).stalled:
            link = [one for one in self._sketch.clients if one.stalled].index(client)
            self._add(Resume(link=link))

    def _happen(self, fault: Fault) -> None:
        """One that needs no end."""
        match fault.kind:
            case "pause":
                self._add(Pause(ms=fault.ms))
            case "stop" | "kill":
                self._add(Restart(how=fault.kind))
            case "reset" | "sever":
                client = self._sketch.clients[fault.who]
                flowing = [one for one in self._sketch.clients if not one.stalled]
                if client in flowing:
                    self._add(_reset(flowing.index(client), fault))
            case _:
                self._lose(fault.who, "drop" if fault.kind == "drop" else "kill")

    def _lose(self, client: int, how: str) -> None:
        """A client's connection or process is gone, if it has consumers."""
        if self._sketch.clients[client].consumers:
            self._add(self._sketch.place(Leave(host=client, how=how)))  # type: ignore[arg-type]  # two literals


def _reset(link: int, fault: Fault) -> Reset:
    if fault.kind == "reset":
        return Reset(link=link)
    return Reset(link=link, after_bytes=fault.amount, toward=fault.toward)  # type: ignore[arg-type]  # two literals
