"""Who uses a broker of which there is only one: many runs that share it, or one that owns it.

Rules
* A run that owns it waits until nobody else uses it, and whoever comes later waits for that run.
"""

from __future__ import annotations

import threading


class Crowd:
    """Runs come in and leave."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._owned = False
        self._waiting = 0

    def enter(self, *, alone: bool) -> None:
        """Wait until the run may use the broker."""
        with self._changed:
            if alone:
                self._waiting += 1
                self._changed.wait_for(lambda: not self._inside)
                self._waiting -= 1
            else:
                self._changed.wait_for(lambda: not self._owned and not self._waiting)
            self._owned = alone
            self._inside += 1

    def leave(self) -> None:
        """The run is over."""
        with self._changed:
            self._inside -= 1
            self._owned = False
            self._changed.notify_all()
