"""The agenda: what is going to happen, in order of virtual time, and how much is moving.

A binary heap of ``(true_ns, order, action)``. ``order`` counts up, so what was planned first at one instant happens
first: no tie is ever decided by an address or a hash. An action is any object with ``happen()``; cancelling is the
action's own business.

``moving`` counts frames on their way, writers at work and syncs of the storage; the world is at rest when it is 0 and
no link is stalled. Timers do not count: a keep-alive is no work.

Whoever raises in what happens, or goes on without end, is told so (``fail``), and the run goes on without it.
"""

from __future__ import annotations

import heapq
import traceback
from collections.abc import Callable
from typing import Protocol

#: What may happen at one instant, and in a run beside what each of its steps is granted.
INSTANT_MAX = 20_000
RUN_MAX = 200_000
STEP_MAX = 2_000
#: Beyond these, something may happen so often, in virtual time.
EVERY_NS = 50_000_000
#: Frames of a traceback that are kept: what failed, and who had asked for it.
FRAMES_KEPT = 8


class EndlessError(Exception):
    """One piece of work goes on without end. ``look_on``: lets whoever found that look at the next one."""

    def __init__(self, text: str, look_on: Callable[[], None]) -> None:
        super().__init__(text)
        self.look_on = look_on


class Party(Protocol):
    """Who acts: the broker's host, or a client's."""

    def fail(self, how: str, evidence: str) -> None:
        """Its process ends: it ``raised``, or it ``hung`` and is killed."""


class Action:
    """Something that is going to happen."""

    __slots__ = ()

    def happen(self) -> None:
        """It happens now."""
        raise NotImplementedError

    def party(self) -> Party:
        """Whose doing it is."""
        raise NotImplementedError


def fail(party: Party, error: Exception) -> None:
    """A party could not go on because of this."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES_KEPT:]
    lines = [f"{_place(frame.filename)}:{frame.lineno} in {frame.name}" for frame in frames]
    lines.append(f"{type(error).__name__}: {error}")
    how = "raised"
    if isinstance(error, EndlessError):
        how = "hung"
        error.look_on()
    party.fail(how, "\n".join(lines))


def _place(path: str) -> str:
    """A file's name, the same wherever brokerproof is installed."""
    return f"/{path}".replace("\\", "/").rpartition("/brokerproof/")[2].rpartition("site-packages/")[2]


class Agenda:
    """Virtual time and the heap. ``now_ns`` only moves forward."""

    def __init__(self, steps: int = 0) -> None:
        """``steps``: how many steps the run has."""
        #: How much has happened, and how much may have: in the run, and before another instant comes.
        self.happened = 0
        self._run_max = RUN_MAX + STEP_MAX * steps
        self._instant_max = INSTANT_MAX
        self.now_ns = 0
        self.moving = 0
        #: A client has heard of something that it may wait for.
        self.stirred = False
        self._heap: list[tuple[int, int, Action]] = []
        self._order = 0

    def plan(self, at_ns: int, action: Action) -> None:
        """Let ``action`` happen at ``at_ns`` (never earlier than now)."""
        self._order += 1
        heapq.heappush(self._heap, (max(self.now_ns, at_ns), self._order, action))

    def next_ns(self) -> int | None:
        """When the next action happens; None when nothing is planned."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Let the next action happen."""
        at_ns, _, action = heapq.heappop(self._heap)
        self._let(at_ns, action)

    def _let(self, at_ns: int, action: Action) -> None:
        happened = self.happened = self.happened + 1
        if at_ns != self.now_ns:
            self.now_ns = at_ns
            self._instant_max = happened + INSTANT_MAX
        if happened > self._instant_max or (happened > self._run_max and self._is_too_much()):
            self._stop(action)
            return
        try:
            action.happen()
        except Exception as error:  # noqa: BLE001 - whatever a broker or a library does wrong
            fail(action.party(), error)

    def _is_too_much(self) -> bool:
        """Whether it is more than keep-alives of a run that waits for hours make."""
        return self.happened > self._run_max + self.now_ns // EVERY_NS

    def _stop(self, action: Action) -> None:
        """Whoever acts goes on without end."""
        many = self.happened > self._instant_max
        much = f"{INSTANT_MAX} things happened at one instant" if many else "too much happened in one run"
        self._instant_max = self.happened + INSTANT_MAX
        self._run_max = self.happened + RUN_MAX
        action.party().fail("hung", f"{much}; the last was {type(action).__name__}")

    def step_by(self, deadline_ns: int) -> bool:
        """Let the next action happen if it is due by ``deadline_ns``; otherwise it is ``deadline_ns``, and False."""
        heap = self._heap
        if not heap or heap[0][0] > deadline_ns:
            self.now_ns = max(self.now_ns, deadline_ns)
            return False
        at_ns, _, action = heapq.heappop(heap)
        self._let(at_ns, action)
        return True

    def stir_by(self, deadline_ns: int) -> bool:
        """Let things happen until a client hears of one; otherwise it is ``deadline_ns``, and False."""
        self.stirred = False
        while self.step_by(deadline_ns):
            if self.stirred:
                return True
        return False

    def rest(self, deadline_ns: int) -> bool:
        """Let things happen until nothing moves; False if something still did at ``deadline_ns``."""
        while self.moving:
            next_ns = self.next_ns()
            if next_ns is None or next_ns > deadline_ns:
                return False
            self.step()
        return True

    def run_until(self, end_ns: int) -> None:
        """Let everything happen that is due up to and including ``end_ns``; then it is ``end_ns``."""
        heap, take = self._heap, heapq.heappop
        while heap and heap[0][0] <= end_ns:
            at_ns, _, action = take(heap)
            self._let(at_ns, action)
        self.now_ns = max(self.now_ns, end_ns)
