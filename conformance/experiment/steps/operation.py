"""``operate``, ``restart``: what the people who run a broker do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.steps.base import Step
from brokerproof.conformance.experiment.steps.send import Ordinal

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import WorldState
    from brokerproof.conformance.experiment.steps.shape import Shape

OPERATIONS = ("purge", "move", "reset")
LIMITS_BYTES = (64 * 1024 * 1024, 16 * 1024, 32 * 1024, 8 * 1024, 0)


class Operate(Step, frozen=True, tag="operate"):
    """An operator asks the broker to ``purge`` a queue, to ``move`` what waits on a queue to another one, or to
    ``reset`` the totals of a queue. ``dest`` and ``to`` count queues only, ``to`` those beside ``dest``. Or the
    operator sets the memory ``limit`` of the whole broker (``dest`` 0) or of one queue (counted from 1; a limit of 0:
    it has none of its own), or gives a queue manager an ``mqsc`` ``command``, which is drawn for whole programs
    (``generate/queue_managers.py``): few claims hold beyond such a change.
    """

    weight = 3
    feature = "operator"
    op: Literal["purge", "move", "reset", "limit", "mqsc"] = "purge"
    dest: Ordinal = 0
    to: Ordinal = 0
    limit_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    command: str = ""

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Operate:
        if "limits" in shape.features and chooser.flag(25):
            return cls(op="limit", limit_bytes=LIMITS_BYTES[chooser.below(len(LIMITS_BYTES))])
        op = OPERATIONS[chooser.below(len(OPERATIONS))]
        return cls(op=op, dest=chooser.below(shape.dests), to=chooser.below(shape.dests))  # type: ignore[arg-type]  # indexing a tuple of literals

    def normalise(self, state: WorldState) -> Operate | None:
        queues = state.queues()
        if self.op in ("limit", "mqsc"):
            dest = self.dest % (1 + len(queues)) if self.op == "limit" else 0
            return msgspec.structs.replace(self, dest=dest, to=0)
        if not queues or (self.op == "move" and len(queues) < 2):
            return None
        to = self.to % (len(queues) - 1) if self.op == "move" else 0
        return msgspec.structs.replace(self, dest=self.dest % len(queues), to=to, limit_bytes=0, command="")

    def resolve(self, state: WorldState) -> ops.Operate:
        if self.op == "limit":
            dest = state.queues()[self.dest - 1] if self.dest else ""
            return ops.Operate(op=self.op, dest=dest, limit_bytes=self.limit_bytes)
        if self.op == "mqsc":
            return ops.Operate(op=self.op, command=self.command)
        queues = state.queues()
        dest = queues.pop(self.dest)
        return ops.Operate(op=self.op, dest=dest, to=queues[self.to] if self.op == "move" else "")


class Restart(Step, frozen=True, tag="restart"):
    """The broker is stopped in an orderly way (``stop``) or killed (``kill``) and comes back with what it had stored.
    Only for brokers that the program declares persistent. ``broker``: which one of several.
    """

    weight = 3
    feature = "restarts"
    how: Literal["stop", "kill"] = "stop"
    broker: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Restart:  # noqa: ARG003 - nothing depends on the shape
        return cls(how="kill" if chooser.flag(60) else "stop")

    def normalise(self, state: WorldState) -> Restart | None:
        return msgspec.structs.replace(self, broker=self.broker % len(state.brokers)) if state.persistent else None

    def resolve(self, state: WorldState) -> ops.Restart:
        return ops.Restart(how=self.how, host=state.brokers[self.broker].name if self.broker else "")
