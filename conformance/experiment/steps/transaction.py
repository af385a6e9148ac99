"""``begin``, ``commit``, ``rollback``: local transactions.

A host has at most one open transaction. While it is open, whatever the host sends, acknowledges and rejects is part of
it. It ends with its connection, too, whatever the reason: then it is rolled back. The world rolls back what is still
open when a run heals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.steps.base import Step
from brokerproof.conformance.experiment.steps.send import Ordinal

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser
    from brokerproof.conformance.experiment.state import ClientState, WorldState
    from brokerproof.conformance.experiment.steps.shape import Shape


class _OfAClient(Step, frozen=True):
    """``host``, among the clients with an open transaction, does it."""

    feature = "transactions"
    host: Ordinal = 0

    @classmethod
    def draw(cls, chooser: Chooser, shape: Shape) -> Self:
        return cls(host=chooser.below(shape.clients))

    def normalise(self, state: WorldState) -> Self | None:
        count = len(self.fitting(state))
        return msgspec.structs.replace(self, host=self.host % count) if count else None

    def fitting(self, state: WorldState) -> list[ClientState]:
        """The clients that can do it."""
        return [client for client in state.clients if client.transaction]


class Begin(_OfAClient, frozen=True, tag="begin"):
    """``host``, among the clients without an open transaction, begins one."""

    weight = 8

    def fitting(self, state: WorldState) -> list[ClientState]:
        return [client for client in state.clients if not client.transaction]

    def resolve(self, state: WorldState) -> ops.Begin:
        client = self.fitting(state)[self.host]
        return ops.Begin(host=client.name, tx=client.next_transaction())


class Commit(_OfAClient, frozen=True, tag="commit"):
    """``host``, among the clients with an open transaction, commits it."""

    weight = 8

    def resolve(self, state: WorldState) -> ops.Commit:
        client = self.fitting(state)[self.host]
        return ops.Commit(host=client.name, tx=client.transaction)


class Rollback(_OfAClient, frozen=True, tag="rollback"):
    """``host``, among the clients with an open transaction, rolls it back."""

    weight = 5

    def resolve(self, state: WorldState) -> ops.Abort:
        client = self.fitting(state)[self.host]
        return ops.Abort(host=client.name, tx=client.transaction)
