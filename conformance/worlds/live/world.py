"""A world in real time, ready to be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.worlds.executor import World
from brokerproof.conformance.worlds.live.port import BUDGET_MS, LivePort

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.brokers.base import Adapter
    from brokerproof.conformance.worlds.live.laboratory import Laboratory


class LiveWorld(World):
    """The executor over a ``LivePort``."""

    kind = LivePort.kind
    port: LivePort

    def __init__(
        self,
        adapter: Adapter,
        laboratory: Laboratory,
        *,
        seed: int | None = None,
        mutant: str | None = None,
        proxied: bool | None = None,
        budget_ms: int = BUDGET_MS,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        port = LivePort(adapter, laboratory, proxied=proxied, budget_ms=budget_ms, is_over=is_over)
        super().__init__(port, seed=seed, mutant=mutant)
