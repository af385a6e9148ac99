"""One message on one destination: where it is, and what it costs.

It decides which moves a message can make; ``queue.py`` and ``topic.py`` make them.

* A queue holds one reference per message, a topic one per message and subscription.
* The states and the allowed moves are the table ``MOVES``. Anything else is a defect of the broker and raises
  ``ImpossibleMove``.
* ``order`` is the place in the destination: given when the message becomes visible, kept for life, so that a message
  that comes back finds its old place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message

WAITING: Final = "WAITING"  # visible, no consumer has it
ASSIGNED: Final = "ASSIGNED"  # on one consumer's dispatched list
ASIDE: Final = "ASIDE"  # a consumer discarded it as expired, the broker's clock disagrees: waits for another consumer
DROPPED: Final = "DROPPED"  # purged while assigned; its late acknowledgement changes nothing but the in-flight count
GONE: Final = "GONE"
ACK_PENDING: Final = "ACK_PENDING"  # its consumer left, and an open transaction decides what becomes of it

#: state -> states that may follow.
MOVES: Final[dict[str, tuple[str, ...]]] = {
    WAITING: (ASSIGNED, GONE),
    ASSIGNED: (WAITING, ASIDE, DROPPED, GONE, ACK_PENDING),
    ASIDE: (ASSIGNED, GONE),
    DROPPED: (GONE,),
    ACK_PENDING: (WAITING, ASIDE, GONE),
    GONE: (),
}


class ImpossibleMove(Exception):
    """The broker tried to move a message as ``MOVES`` does not allow."""


class Publication:
    """A message published to a topic, shared by its subscriptions: at most one dead-letter copy, and how many still
    hold it.
    """

    __slots__ = ("dead_lettered", "holders")

    def __init__(self, holders: int) -> None:
        self.holders = holders
        self.dead_lettered = False


class Reference:
    """A message's stay on a destination."""

    __slots__ = ("charged", "message", "order", "publication", "refused_by", "reserved", "returned",
                 "size_bytes", "spooled", "state")  # fmt: skip

    def __init__(self, message: Message, order: int, size_bytes: int, publication: Publication | None = None) -> None:
        self.message = message
        self.order = order
        self.size_bytes = size_bytes
        self.publication = publication
        self.state: str = WAITING
        #: Counted in the memory usage (``memory.py``).
        self.charged = False
        #: Counted in the usage of temporary files (``disk.py``).
        self.spooled = False
        #: In flight without being counted: its consumer's one reserve message.
        self.reserved = False
        #: Came back from a consumer: goes ahead of what was never dispatched.
        self.returned = False
        #: Serial numbers of the subscriptions that discarded it as expired; None is none.
        self.refused_by: list[int] | None = None

    def move(self, state: str) -> None:
        """Change the state; raise ``ImpossibleMove`` if the table does not allow it."""
        if state not in MOVES[self.state]:
            raise ImpossibleMove(f"{self.message!r} cannot move from state {self.state} to {state}")
        self.state = state
