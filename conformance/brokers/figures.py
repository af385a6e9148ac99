"""What a profile says of its broker's figures: where they come from, and what they are called there."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from brokerproof.conformance.experiment.nearest import suggestion

#: Figures of a history, so that a word of ``counters.map`` can be checked.
FIGURES = (
    *("size", "in_flight", "enqueued", "dequeued", "dispatched", "acknowledged", "wasted", "expired", "scheduled"),
    *("consumers", "memory_percent", "memory_bytes", "memory_limit_bytes", "cursor_percent", "blocked_sends"),
)
#: Kinds that are asked for one queue at a time.
_OF_QUEUES = ("stomp-statistics", "prometheus")


class BrokerFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Those of the broker as a whole: ``at`` is a page of its own, or a command."""

    at: str
    map: dict[str, str]


class Counters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table ``[counters]``."""

    kind: str
    at: str = ""
    map: dict[str, str] = {}
    broker: BrokerFigures | None = None

    def words(self) -> dict[str, str]:
        """All figures that are told, by their lines: of queues, and of the broker."""
        whole = self.broker.map if self.broker is not None else {}
        return {f"map.{word}": word for word in self.map} | {f"broker.map.{word}": word for word in whole}


def mistakes(counters: Counters) -> Iterator[tuple[str, str]]:
    """Lines that are wrong, and why."""
    for line, word in counters.words().items():
        if word not in FIGURES:
            near = suggestion(word, FIGURES)
            yield f"counters.{line}", f"no figure of ours; {near}known: {', '.join(FIGURES)}"
    if counters.broker is not None and counters.kind in _OF_QUEUES:
        yield "counters.broker", f"{counters.kind!r} tells nothing of the broker as a whole; leave it out, or use http"
