"""Who is served next among a queue's consumers with open windows.

Rule: round robin. The ring holds the consumers whose window is open; its front is served and goes to the back. A
consumer whose window opens joins at the back. On a queue nothing else decides who gets a message; priorities reorder
nothing in this release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from collections import deque

    from reference_broker.core.subscription import Subscription


@mypyc_attr(allow_interpreted_subclasses=True)
class Rotation:
    """Policy ``dispatch``."""

    def served(self, ring: deque[Subscription]) -> None:
        """The consumer at the front of the ring got a message and can take more."""
        ring.rotate(-1)
