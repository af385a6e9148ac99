"""Strangers in the simulation: no way between them and the broker, so what they say arrives as they say it.

What the broker writes costs its writer ``WRITE_NS`` as ever. A deaf stranger's link takes as many frames as any stalled
link does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.agents.stranger import Broken, Part, Stranger
from brokerproof.conformance.experiment.history import Visit
from brokerproof.conformance.worlds.simulated.agenda import Action
from brokerproof.conformance.worlds.simulated.link import FRAMES_MAX, Link

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.steps.visit import Visit as Step
    from brokerproof.conformance.worlds.simulated.stage import Stage

NS_PER_MS = 1_000_000


class Speak(Action):
    """A stranger wants to say something."""

    __slots__ = ("_visitor",)

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor

    def happen(self) -> None:
        self._visitor.speak()


class Visitor(Link):
    """A stranger and its link. The broker's writer knows it as a link."""

    __slots__ = ("connection", "stranger")

    def __init__(self, world: Stage, step: Step, name: str) -> None:
        super().__init__(world, name, 0)
        self.stranger = Stranger(step, name)
        self.connection = world.next_connection()

    # -- toward the broker

    def arrive(self) -> None:
        """Connect, and say hello."""
        now_ns = self.world.agenda.now_ns
        self.world.broker.accept(self.connection, self, self.stranger.step.via)
        self._say(self.stranger.start(now_ns), hello=True)
        self._plan()

    def speak(self) -> None:
        """Say what is due."""
        if self.stranger.next_due_ns() is not None:
            self._say(self.stranger.speak(self.world.agenda.now_ns))
            self._plan()

    def _plan(self) -> None:
        due_ns = self.stranger.next_due_ns()
        if due_ns is not None:
            self.world.agenda.plan(due_ns, Speak(self))

    def _say(self, items: list[object], *, hello: bool = False) -> None:
        broker = self.world.broker
        for item in items:
            now_ns = self.world.agenda.now_ns
            self.stranger.wrote(now_ns, now_ns, hello=hello)
            if isinstance(item, Part):
                broker.bytes_arrived(self.connection)
            elif isinstance(item, Broken):
                broker.broken(self.connection, item.text)
            else:
                broker.receive(self.connection, item)

    def leave(self) -> None:
        """Hang up."""
        if self.stranger.ended_ns is None:
            self.world.broker.lose(self.connection)

    # -- from the broker: it hears at once, unless it does not read

    def is_full(self) -> bool:
        return self.down >= FRAMES_MAX

    def to_client(self, connection: int, frame: object) -> None:  # noqa: ARG002 - it has but one
        stranger = self.stranger
        if stranger.step.deaf and stranger.welcome_ns is not None:
            self.down += 1
            return
        now_ns = self.world.agenda.now_ns
        spoke = stranger.welcome_ns is not None
        self._say(stranger.hear(frame, now_ns))
        if not self.world.broker.is_unread(self.connection):
            stranger.flooded_ns = stranger.flooded_ns or self.world.agenda.now_ns
        if not spoke:
            self._plan()

    def end_to_client(self, connection: int, reason: str) -> None:  # noqa: ARG002 - nobody tells it why
        self.stranger.end(self.world.agenda.now_ns)


def visit(world: Stage, step: Step, name: str) -> Visit:
    """Let strangers come and go; what the first of them saw."""
    agenda = world.agenda
    t0 = agenda.now_ns
    before = world.broker.node.resources()
    visitors = [Visitor(world, step, name) for _ in range(step.times)]
    for visitor in visitors:
        visitor.arrive()
    end_ns = t0 + step.ms * NS_PER_MS
    while any(visitor.stranger.ended_ns is None for visitor in visitors) and agenda.step_by(end_ns):
        pass
    closed = sum(visitor.stranger.ended_ns is not None for visitor in visitors)
    for visitor in visitors:
        visitor.leave()
    after = world.broker.node.resources()
    left = {what: after[what] - before[what] for what in after} if step.times > 1 else None
    reports = world.broker.reports(visitors[0].connection)
    first = visitors[0].stranger
    return first.event(world.recorder.next_seq(), t0, agenda.now_ns, reports=reports, closed=closed, left=left)
