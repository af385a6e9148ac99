"""Shrinking a failing program to one that a person can read.

Path (a) of DESIGN section 2: the reference broker, in virtual time. Two stages:

1. *Delta debugging* of our own: drop chunks of steps, do in turn what is done at once, make one of alike neighbours,
   drop hosts' peculiarities, then bisect every number towards its simplest value. It needs milliseconds, and it can
   take any length, which Hypothesis cannot (feasibility-hypothesis-spark.md 1.6).
2. *Hypothesis* polishes the short result (``polish.py``).

A candidate counts only if it fails in the same way: the predicate decides, usually "the same requirement is violated".
The result is a program that replays from its file; nothing depends on how it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import Advance, Parallel
from brokerproof.conformance.experiment.steps.parallel import HostSteps
from brokerproof.conformance.generate.networks import without_network

Predicate = Callable[[Program], bool]
Over = Callable[[], bool]
#: Candidates tried before the best one so far is returned.
BUDGET = 4000


class Shrinker:
    """One shrink: ``run`` returns the smallest failing program found within the budget, or before ``is_over``."""

    def __init__(self, program: Program, fails: Predicate, budget: int = BUDGET, is_over: Over = lambda: False) -> None:
        self.best = program
        self.tried = 0
        self._fails = fails
        self._budget = budget
        self._is_over = is_over
        self._seen: dict[bytes, bool] = {}

    def run(self) -> Program:
        """Repeat all passes until none of them helps."""
        if not self._fails(self.best):
            raise ValueError("the program does not fail, so there is nothing to shrink")
        while self.tried < self._budget:
            before = self.best.encode()
            self._drop_steps()
            self._divide_parallels()
            self._join_alike()
            self._simplify_frame()
            self._simplify_steps()
            if self.best.encode() == before:
                break
        return self.best

    def _try(self, candidate: Program) -> bool:
        if self.tried >= self._budget or self._is_over():
            return False
        key = candidate.encode()
        known = self._seen.get(key)
        if known is None:
            self.tried += 1
            known = self._seen[key] = self._fails(candidate)
        if known:
            self.best = candidate
        return known

    def _drop_steps(self) -> None:
        """Remove chunks, halving their size (no complements as in ddmin: steps are total, so any subset is legal)."""
        size = max(1, len(self.best.steps) // 2)
        while size >= 1:
            start = 0
            while start < len(self.best.steps):
                steps = self.best.steps[:start] + self.best.steps[start + size :]
                if not self._try(self.best.with_steps(steps)):
                    start += size
            size //= 2

    def _divide_parallels(self) -> None:
        """Let what is done at once be done one after the other, or less of it."""
        for index in reversed(range(len(self.best.steps))):
            if isinstance(step := self.best.steps[index], Parallel):
                steps = self.best.steps
                in_turn = [one for sequence in step.of for one in sequence]
                if not self._try(self.best.with_steps([*steps[:index], *in_turn, *steps[index + 1 :]])):
                    self._thin_out(index)

    def _join_alike(self) -> None:
        """Two steps that follow each other and differ in nothing but their ``count``, or waits, become one of both."""
        index = 1
        while index < len(steps := self.best.steps):
            first, second = (msgspec.structs.asdict(one) for one in steps[index - 1 : index + 1])
            field = "ms" if isinstance(steps[index], Advance) else "count"
            both = first.pop(field, 0) + second.pop(field, 0)
            if both and type(steps[index]) is type(steps[index - 1]) and first == second:
                joined = msgspec.structs.replace(steps[index], **{field: both})
                if self._try(self.best.with_steps([*steps[: index - 1], joined, *steps[index + 1 :]])):
                    continue
            index += 1

    def _thin_out(self, index: int) -> None:
        """Leave out sequences, then single steps; then simplify the fields of the others."""
        place = 0
        while place < len(of := self._of(index)):
            if not self._try_field(index, "of", of[:place] + of[place + 1 :]):
                place += 1
        for place in range(len(self._of(index))):
            at = 0
            while at < len(steps := self._of(index)[place]):
                if not self._try_sequence(index, place, steps[:at] + steps[at + 1 :]):
                    at += 1
            for at, one in enumerate(self._of(index)[place]):
                simplest = type(one)()
                for field in [name for name in one.__struct_fields__ if name != "host"]:
                    steps = self._of(index)[place]
                    plain = msgspec.structs.replace(steps[at], **{field: getattr(simplest, field)})
                    if plain != steps[at]:
                        self._try_sequence(index, place, (*steps[:at], plain, *steps[at + 1 :]))

    def _of(self, index: int) -> tuple[HostSteps, ...]:
        step = self.best.steps[index]
        assert isinstance(step, Parallel)
        return step.of

    def _try_sequence(self, index: int, place: int, steps: HostSteps) -> bool:
        of = self._of(index)
        return self._try_field(index, "of", (*of[:place], steps, *of[place + 1 :]))

    def _simplify_frame(self) -> None:
        progress = True
        while progress:
            progress = any(self._try(candidate) for candidate in frame_candidates(self.best))

    def _simplify_steps(self) -> None:
        for index in range(len(self.best.steps)):
            for field in type(self.best.steps[index]).__struct_fields__:
                self._simplify_field(index, field)

    def _simplify_field(self, index: int, field: str) -> None:
        step = self.best.steps[index]
        value = getattr(step, field)
        default = getattr(type(step)(), field)
        if value == default or self._try_field(index, field, default):
            return
        if isinstance(value, int) and not isinstance(value, bool) and isinstance(default, int):
            self._bisect(index, field, default, value)

    def _bisect(self, index: int, field: str, low: int, high: int) -> None:
        """Move a number towards ``low``: first round values, then halving. ``high`` fails, ``low`` is known not to."""
        for round_value in (1, 1000, -1, -1000):
            if (
                abs(low) < abs(round_value) < abs(high)
                and (round_value > 0) == (high > 0)
                and self._try_field(index, field, round_value)
            ):
                return
        while abs(high - low) > 1:
            middle = (low + high) // 2
            if self._try_field(index, field, middle):
                high = middle
            else:
                low = middle

    def _try_field(self, index: int, field: str, value: object) -> bool:
        steps = list(self.best.steps)
        steps[index] = msgspec.structs.replace(steps[index], **{field: value})
        return self._try(self.best.with_steps(steps))


def frame_candidates(program: Program) -> Iterator[Program]:
    """Simpler settings, one change each, biggest simplification first."""
    replace = msgspec.structs.replace
    if program.broker != BrokerSpec():
        yield replace(program, broker=BrokerSpec())
    if program.bridges():
        yield without_network(program)
    yield from _broker_candidates(program)
    for index, host in enumerate(program.hosts):
        if host.role == "client" and len(program.clients()) > 1:
            hosts = program.hosts[:index] + program.hosts[index + 1 :]
            links = [link for link in program.links if link.client != host.name]
            dests = [dest for dest in program.destinations if dest.host != host.name]
            if dests:
                yield replace(program, hosts=hosts, links=links, destinations=dests)
        for simpler in _host_candidates(host):
            yield replace(program, hosts=[*program.hosts[:index], simpler, *program.hosts[index + 1 :]])
    for index, link in enumerate(program.links):
        without = LinkSpec(link.client, link.latency_us)
        if link.monitor is not None:
            yield replace(program, links=[*program.links[:index], without, *program.links[index + 1 :]])
        for near in (
            replace(link, latency_us=0),
            replace(link, bytes_per_second=0),
            replace(link, encoded=False),
            replace(link, jitter_us=0),
            replace(link, slice_bytes=0),
        ):
            if near != link:
                yield replace(program, links=[*program.links[:index], near, *program.links[index + 1 :]])
    dests = program.destinations
    if len(dests) > 1:
        for index in range(len(dests)):
            yield replace(program, destinations=dests[:index] + dests[index + 1 :])


def _broker_candidates(program: Program) -> Iterator[Program]:
    replace = msgspec.structs.replace
    default = BrokerSpec()
    for field in BrokerSpec.__struct_fields__:
        if getattr(program.broker, field) != getattr(default, field):
            yield replace(program, broker=replace(program.broker, **{field: getattr(default, field)}))
    stamping = program.broker.timestamping
    if stamping is not None:
        for field in type(stamping).__struct_fields__:
            if getattr(stamping, field):
                simpler = replace(stamping, **{field: type(getattr(stamping, field))()})
                yield replace(program, broker=replace(program.broker, timestamping=simpler))


def _host_candidates(host: HostSpec) -> Iterator[HostSpec]:
    replace = msgspec.structs.replace
    if host.clock != ClockSpec():
        yield replace(host, clock=ClockSpec())
        for field in ("drift_ppm", "zone_hours"):
            if getattr(host.clock, field):
                yield replace(host, clock=replace(host.clock, **{field: 0}))
        if abs(host.clock.offset_ms) > 1000:
            yield replace(host, clock=replace(host.clock, offset_ms=1000 if host.clock.offset_ms > 0 else -1000))
    if host.version:
        yield replace(host, version="")
    if host.role == "client" and host.via != "stomp":
        yield replace(host, via="stomp", expiry_check=True)
    if not host.expiry_check:
        yield replace(host, expiry_check=True)


def shrink(program: Program, fails: Predicate, budget: int = BUDGET) -> Program:
    """Delta debugging only; see the module's header."""
    return Shrinker(program, fails, budget).run()
