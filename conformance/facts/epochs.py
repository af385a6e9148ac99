"""Epochs: what happened to a destination, or to the broker as a whole, since the broker was last started.

A start leaves nobody attached, no transaction open, and whatever was kept in the store only.
"""

from __future__ import annotations

from typing import Final

from brokerproof.conformance.experiment.history import Operate, Send

#: What a message costs a broker beyond its body, at most and at least (bytes).
OVERHEAD_MAX_BYTES: Final = 2048
OVERHEAD_MIN_BYTES: Final = 1024


class Epoch:
    """``sent``: messages that anybody tried to send there. ``touched``: how often somebody came to consume or to
    browse, or an operator asked for something. ``undone``: something that was sent there was rolled back.

    Not of this epoch alone: ``largest``: what the largest message can have cost; ``mixed``: it got something else than
    confirmed persistent messages without a delay, outside transactions; ``unclear``: what it keeps, or whether that is
    in memory, is not known: it was there before a restart, or an operator had a hand in it. That ends when it is seen
    empty.
    """

    __slots__ = ("fed", "largest", "mixed", "sent", "touched", "unclear", "undone")

    def __init__(self, *, fed: bool = False) -> None:
        #: Messages come there that were sent elsewhere.
        self.fed = fed
        self.sent = 0
        self.largest = OVERHEAD_MAX_BYTES
        self.touched = 0
        self.undone = False
        self.mixed = fed
        self.unclear = False

    def copy(self) -> Epoch:
        """As it is now."""
        found = Epoch(fed=self.fed)
        found.sent, found.largest, found.touched = self.sent, self.largest, self.touched
        found.undone, found.mixed, found.unclear = self.undone, self.mixed, self.unclear
        return found

    def send(self, event: Send) -> None:
        """Something was sent there, or perhaps not."""
        self.sent += 1
        self.largest = max(self.largest, event.size + OVERHEAD_MAX_BYTES)
        delayed = event.delay_ms > 0 or event.deliver_at_ms is not None
        if event.result != "fail" and (event.result != "ok" or not event.persistent or event.tx is not None or delayed):
            self.mixed = True

    def operate(self, event: Operate) -> None:
        """An operator asked for something."""
        self.touched += 1
        self.unclear = self.unclear or event.op != "reset"

    def restart(self) -> None:
        """The broker began anew."""
        self.unclear = self.unclear or self.fed or self.sent > 0
        self.sent = self.touched = 0
        self.undone = False
