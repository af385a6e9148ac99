"""``begin``, ``commit``, ``rollback``: local transactions.

A host has at most one open transaction. While it is open, whatever the host sends, acknowledges and rejects is part of
it. It ends with its connection, too, whatever the reason: then it is rolled back. The world rolls back what is still
open when a run heals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.steps.base import Step
from brokerproof.conformance.experiment.steps.send import Ordinal

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import ClientState, WorldState
    from brokerproof.conformance.experiment.steps.shape import Shape


class Begin(Step, frozen=True, tag="begin"):
    """``host``, among the clients without an open transaction, begins one."""

    weight = 8
    feature = "transactions"
    host: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Begin:
        return cls(host=chooser.below(shape.clients))

    def normalise(self, state: WorldState) -> Begin | None:
        fitting = _without_transaction(state)
        return msgspec.structs.replace(self, host=self.host % len(fitting)) if fitting else None

    def resolve(self, state: WorldState) -> ops.Begin:
        client = _without_transaction(state)[self.host]
        return ops.Begin(host=client.name, tx=client.next_transaction())


def _without_transaction(state: WorldState) -> list[ClientState]:
    return [client for client in state.clients if not client.transaction]


def _with_transaction(state: WorldState) -> list[ClientState]:
    return [client for client in state.clients if client.transaction]


class Commit(Step, frozen=True, tag="commit"):
    """``host``, among the clients with an open transaction, commits it."""

    weight = 8
    feature = "transactions"
    host: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Commit:
        return cls(host=chooser.below(shape.clients))

    def normalise(self, state: WorldState) -> Commit | None:
        fitting = _with_transaction(state)
        return msgspec.structs.replace(self, host=self.host % len(fitting)) if fitting else None

    def resolve(self, state: WorldState) -> ops.Commit:
        client = _with_transaction(state)[self.host]
        return ops.Commit(host=client.name, tx=client.transaction)


class Rollback(Step, frozen=True, tag="rollback"):
    """``host``, among the clients with an open transaction, rolls it back."""

    weight = 5
    feature = "transactions"
    host: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Rollback:
        return cls(host=chooser.below(shape.clients))

    def normalise(self, state: WorldState) -> Rollback | None:
        fitting = _with_transaction(state)
        return msgspec.structs.replace(self, host=self.host % len(fitting)) if fitting else None

    def resolve(self, state: WorldState) -> ops.Abort:
        client = _with_transaction(state)[self.host]
        return ops.Abort(host=client.name, tx=client.transaction)
