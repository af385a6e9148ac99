"""Duplicate detection: what a producer sends again because it does not know whether the first send counted.

A client that comes back over another socket repeats every send that was not answered (openwire.md 10.13). The broker
may have taken it already, and somebody may have consumed it.

* Only sends that say which one of their producer they are (``Send.number``, counted from 1) are looked at: persistent
  messages of clients that come back, outside transactions. A number that is not above the highest one that was taken is
  a repetition: it is accepted and thrown away, as ActiveMQ does.
* A number counts when the message was taken, not when it came. One that waits for memory has not been taken, also when
  a later one has (at a destination with room): its repetition waits behind it, and is a repetition as soon as it went
  through. If it is refused after its sender has gone, the repetition is new.
* What comes over a network bridge (``Send.network``) outside transactions is known by id and destination, as far back
  as ``CROSSINGS`` messages, because a bridge sends again what was not confirmed (``openwire/bridge.py``).
* The last ``PRODUCERS`` producers are remembered, the one that was heard least recently is forgotten first. After a
  restart the broker knows the messages that it still holds, and those of them that came over a bridge.

Known exceptions: a message that was consumed before a restart, and is repeated after it, is taken again. What a
transaction repeats is new, because the first time went with the connection. Refused numbers are not remembered: if the
connection loses a refusal, and a later message of the producer was taken, the repetition counts as taken; in ActiveMQ,
too.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from mypy_extensions import mypyc_attr

#: maxFailoverProducersToTrack of ActiveMQ's stores.
PRODUCERS: Final = 1024
#: The window of the audit of network bridges, in messages.
CROSSINGS: Final = 2048


@mypyc_attr(allow_interpreted_subclasses=True)
class DuplicateDetection:
    """Policy ``duplicate_detection``. Per producer the highest number, and those below it not taken."""

    __slots__ = ("_crossed", "_highest", "_open")

    def __init__(self) -> None:
        self._highest: OrderedDict[str, int] = OrderedDict()
        #: Numbers that wait, or were refused when nobody was there to hear it; no empty ones.
        self._open: dict[str, dict[int, bool]] = {}
        #: (destination, message id) of what came over bridges, oldest first.
        self._crossed: OrderedDict[tuple[str, str], bool] = OrderedDict()

    def is_repeated(self, producer: str, number: int) -> bool:
        """Whether a message has been taken already."""
        return number <= self._highest.get(producer, 0) and number not in self._open.get(producer, ())

    def waits(self, producer: str, number: int) -> None:
        """A message has come, and is not taken yet."""
        self._open.setdefault(producer, {})[number] = True

    def answered(self, producer: str, number: int) -> None:
        """A message waits no longer."""
        still = self._open.get(producer)
        if still is not None:
            still.pop(number, None)
            if not still:
                del self._open[producer]

    def taken(self, producer: str, number: int) -> None:
        """A message has been taken."""
        highest = self._highest
        if number > highest.get(producer, 0):
            highest[producer] = number
        highest.move_to_end(producer)
        if self._open:
            self.answered(producer, number)
        if len(highest) > PRODUCERS:
            self._open.pop(highest.popitem(last=False)[0], None)

    def has_crossed(self, destination: str, message_id: str) -> bool:
        """Whether a message that comes over a bridge has been taken already."""
        return (destination, message_id) in self._crossed

    def crossed(self, destination: str, message_id: str) -> None:
        """A message that came over a bridge has been taken."""
        crossed = self._crossed
        crossed[destination, message_id] = True
        if len(crossed) > CROSSINGS:
            crossed.popitem(last=False)

    def recovered(self, message_id: str) -> None:
        """A message has outlived a restart; its id names producer and number if its protocol has such ids."""
        producer, _, number = message_id.rpartition(":")
        if producer.startswith("ID:") and number.isascii() and number.isdigit() and len(number) < 19:
            self.taken(producer, int(number))
