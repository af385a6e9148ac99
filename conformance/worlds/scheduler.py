"""Who goes on next: one client at a time waits in lock-step, several at once are interleaved.

Rules
* A client that waits for something is resumed whenever something has happened that it may wait for, and looks for
  itself.
* Between its operations a client waits for its ``TURN``. Whose it is, and whether what is on its way comes first, the
  chooser says (0: each in turn); so in virtual time an order replays. Real time has an order of its own: there all
  start at once.
* Who only watches stops when nobody else goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.worlds.port import Port, Waiting

T = TypeVar("T")
#: Yielded by who could go on at once, but lets others do so first.
TURN: Final = -1


def lock_step(turn: Callable[[int], bool], work: Waiting[T]) -> T:
    """Do one piece of work alone; what it returns. ``turn`` is ``Port.wait``, or the like."""
    try:
        until_ns = next(work)
        while True:
            until_ns = work.send(until_ns == TURN or turn(until_ns))
    except StopIteration as over:
        return over.value  # type: ignore[no-any-return] # what the work returns


class _Lane:
    """One client's work, and until when it waits."""

    def __init__(self, work: Waiting[None]) -> None:
        self.work = work
        self.until_ns = TURN

    def resume(self, lanes: list[_Lane], more: bool) -> None:
        """Let it go on until it waits again; it leaves the lanes when it is done."""
        try:
            self.until_ns = self.work.send(more)
        except StopIteration:
            lanes.remove(self)


def interleave(port: Port, works: Sequence[Waiting[None]], watching: Sequence[Waiting[None]], chooser: Chooser) -> None:
    """Do several pieces of work at once, ``watching`` meanwhile. Each must begin with a ``TURN``."""
    lanes = [_Lane(work) for work in (*works, *watching)]
    for lane in lanes:
        lane.until_ns = next(lane.work)
    last = list(watching) if works else []
    while any(lane.work not in last for lane in lanes):
        ready = [lane for lane in lanes if lane.until_ns == TURN]
        busy = port.moving()
        if ready and (choice := chooser.below(len(ready) + busy)) < len(ready):
            chosen = ready[choice]
            lanes.remove(chosen)
            lanes.append(chosen)
            chosen.resume(lanes, more=True)
            continue
        waiting = [lane for lane in lanes if lane.until_ns != TURN]
        until_ns = min([lane.until_ns for lane in waiting], default=port.true_ns())
        happened = port.turn(until_ns)
        for lane in waiting:
            lane.resume(lanes, more=happened or lane.until_ns > until_ns)
