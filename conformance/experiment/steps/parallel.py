"""``parallel``: sequences of several hosts at once.

The steps of a sequence are one host's, all with the same ``host``, which here counts all clients; their other ordinals
mean what that host has. Sequences of the same host follow one another. A sequence without a host is the observer's, who
waits, reads figures and operates while the others go on, and no longer.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from brokerproof.conformance.experiment.chooser import Chooser, ReplayChooser, SeededChooser
from brokerproof.conformance.experiment.steps.base import Step
from brokerproof.conformance.experiment.steps.consume import Ack, Leave, Nack, Subscribe, Take, Unsubscribe
from brokerproof.conformance.experiment.steps.operation import Operate
from brokerproof.conformance.experiment.steps.send import Ordinal, Send
from brokerproof.conformance.experiment.steps.shape import Shape
from brokerproof.conformance.experiment.steps.transaction import Begin, Commit, Rollback
from brokerproof.conformance.experiment.steps.waiting import Advance, Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from brokerproof.conformance.experiment.operations import Operation
    from brokerproof.conformance.experiment.state import WorldState

#: What nobody's host does.
ObserverStep = Advance | Counters | Operate
ClientStep = Send | Subscribe | Take | Ack | Nack | Leave | Begin | Commit | Rollback | Unsubscribe | ObserverStep
HostSteps = tuple[ClientStep, ...]
#: More sequences than this at once are refused.
SEQUENCES_MAX = 64
#: How often each kind is drawn, those of features that a program has.
_KINDS: tuple[type[Any], ...] = (Send, Send, Send, Subscribe, Subscribe, Take, Take, Take, Ack, Ack, Leave, Advance)
_KINDS += (Begin, Commit, Rollback, Unsubscribe, Nack)


class Parallel(Step, frozen=True, tag="parallel"):
    """Several hosts do what their sequences ``of`` say at once. ``interleave`` is the order in virtual time: 0 is each
    in turn, any other number another order.
    """

    weight = 6
    feature = "parallel"
    of: Annotated[tuple[HostSteps, ...], msgspec.Meta(max_length=SEQUENCES_MAX)] = ()
    interleave: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Parallel:
        """Two sequences or more, of different hosts if there are as many; sometimes an observer beside them."""
        kinds = [kind for kind in _KINDS if not kind.feature or kind.feature in shape.features]
        first, count = chooser.below(shape.clients), 2 + chooser.below(max(1, shape.clients - 1))
        of = [_draw_sequence(chooser, shape, kinds, (first + n) % shape.clients) for n in range(count)]
        if chooser.flag(40):
            dest, count = chooser.below(shape.dests), 1 + chooser.below(20)
            read = Counters(dest=dest, count=count, every_ms=chooser.below(3))
            operates = Operate.feature in shape.features and chooser.flag(60)
            acts = (Advance(ms=chooser.below(20)), Operate.draw(chooser, shape)) if operates else ()
            of.append((*acts, read))
        return cls(tuple(of), chooser.below(1000))

    def normalise(self, state: WorldState) -> Parallel | None:
        of: dict[int, HostSteps] = {}
        for number, steps in enumerate(self.of):
            host = host_of(steps)
            if host is None:
                of[-1 - number] = steps
            else:
                host %= len(state.clients)
                there = [_at(host, step) for step in steps]
                of[host] = (*of.get(host, ()), *there)
        found = tuple(steps for steps in of.values() if steps)
        return Parallel(found, self.interleave) if found else None

    def resolve(self, state: WorldState) -> Operation:  # noqa: ARG002 - as for every step
        raise TypeError("what is done at once is not one operation: resolve the steps of `of` when their turns come")


def _draw_sequence(chooser: Chooser, shape: Shape, kinds: list[Any], host: int) -> HostSteps:
    """A producer's, a consumer's who comes, settles some and goes, again and again, or anything."""
    form = chooser.below(3)
    steps: list[Any]
    if form == 0:
        steps = [Send.draw(chooser, shape) for _ in range(1 + chooser.below(4))]
    elif form == 1:
        take, ack = Take(count=1 + chooser.below(10), deadline_ms=10), Ack(upto=chooser.below(10))
        visit = [Subscribe.draw(chooser, shape), take, ack, Leave.draw(chooser, shape)]
        steps = visit * (1 + chooser.below(3))
    else:
        steps = [kinds[chooser.below(len(kinds))].draw(chooser, shape) for _ in range(1 + chooser.below(5))]
    return tuple(_at(host, step) for step in steps)


def _at(host: int, step: Any) -> Any:
    return step if isinstance(step, ObserverStep) else msgspec.structs.replace(step, host=host)


def hosts_of(steps: HostSteps) -> list[int]:
    """The hosts that a sequence names, each once; a program that may be run has one at most."""
    return list(dict.fromkeys(step.host for step in steps if not isinstance(step, ObserverStep)))


def host_of(steps: HostSteps) -> int | None:
    """Whose sequence it is; None: the observer's."""
    return next(iter(hosts_of(steps)), None)


def each(steps: Iterable[Any]) -> Iterator[Any]:
    """Every single step, those of ``parallel`` in its place."""
    for step in steps:
        if isinstance(step, Parallel):
            yield from chain.from_iterable(step.of)
        else:
            yield step


def mapped(step: Any, change: Callable[[Any], Any]) -> Any:
    """A step with each single one changed; those of which nothing becomes are left out."""
    if not isinstance(step, Parallel):
        return change(step)
    of = ((changed for one in steps if (changed := change(one)) is not None) for steps in step.of)
    return Parallel(tuple(map(tuple, of)), step.interleave)


def chooser_of(interleave: int) -> Chooser:
    """Whose turn it is."""
    return SeededChooser(interleave) if interleave else ReplayChooser([])
