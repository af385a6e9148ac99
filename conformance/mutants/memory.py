"""Mutants of memory: who gets it, what is counted, and what limits mean."""

from __future__ import annotations

from reference_broker.core.destination import Destination
from reference_broker.core.memory import Memory, MemoryTree
from reference_broker.core.paging import G1Memory
from reference_broker.core.queue import Queue
from reference_broker.core.reference import Reference
from reference_broker.core.subscription import Subscription


class OverLimit(Memory):
    """Everything stays in memory, whatever the limit."""

    def caches(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:  # noqa: ARG002 - the defect is to ignore them
        return not queue.line.stored

    def admit(  # the defect is to ignore who asks
        self, tree: MemoryTree, destination: Destination, _subscription: Subscription, reference: Reference
    ) -> bool:
        tree.charge(destination, reference)
        return True


class IgnoresOwnLimit(Memory):
    """Only the broker's limit counts, a destination's own does not."""

    def _has_space(self, tree: MemoryTree, queue: Queue, size_bytes: int) -> bool:
        return tree.root.is_below(queue.mark_percent) and tree.root.fits(size_bytes)

    def _make_room(self, tree: MemoryTree, destination: Destination, size_bytes: int) -> bool:
        return tree.root.fits(size_bytes) and destination is not None


class Leaks(Memory):
    """Every loaded message leaves a byte behind."""

    def admit(
        self, tree: MemoryTree, destination: Destination, subscription: Subscription, reference: Reference
    ) -> bool:
        admitted = super().admit(tree, destination, subscription, reference)
        if admitted:
            destination.usage.change(1)
        return admitted


class StarvingMemory(G1Memory):
    """The seed's broker: no message is paged in while the whole broker is above the mark."""

    throttles = False
