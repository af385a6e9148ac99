"""How many messages one connection may send per second: a token bucket without a clock.

* A second's worth may come at once; after that one message every 1/rate seconds.
* Whoever is too fast waits, nothing is refused: the edge reads no further until the next message may pass.
"""

from __future__ import annotations

from typing import Final

_NS_PER_S: Final = 1_000_000_000


class TokenBucket:
    """``full_at_ns`` is when the bucket would be full again, which says how full it is at any time."""

    __slots__ = ("_full_at_ns", "_step_ns")

    def __init__(self, per_second: int) -> None:
        self._step_ns = _NS_PER_S // per_second
        self._full_at_ns = 0

    def wait_ns(self, now_ns: int) -> int:
        """How long the next message has to wait; 0: it may pass now, and has been counted."""
        full_at_ns = max(self._full_at_ns, now_ns) + self._step_ns
        if full_at_ns - now_ns > _NS_PER_S:
            return full_at_ns - now_ns - _NS_PER_S
        self._full_at_ns = full_at_ns
        return 0
