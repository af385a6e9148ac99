"""Message groups: all messages of one JMSXGroupID go to one consumer, one after the other.

Rules (ActiveMQ's, except where it is said):
* The first consumer that is given a message of a group owns the group until it leaves, or until a message closes the
  group (JMSXGroupSeq below 0): that message still goes to the owner, the next one to anybody. The first message that an
  owner gets carries ``JMSXGroupFirstForConsumer``.
* A message of an owned group waits for its owner, also when the owner's selector does not want it.
* When an owner leaves, its groups are free, and go one by one to whoever is next.
* A queue remembers ``CAPACITY`` groups; beyond, the one that was silent longest is forgotten and may change its owner
  (ActiveMQ's default map does the same).
* ActiveMQ gives a group away when its sequence begins anew at 1; here only the end of a group or of its owner does.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.subscription import Subscription

CAPACITY: Final = 1024
#: The property on the first message of a group that its owner gets.
FIRST: Final = "JMSXGroupFirstForConsumer"


class Group:
    """An owned group; ``claimed`` are the waiting messages that were met before their turn, by their keys."""

    __slots__ = ("claimed", "owner")

    def __init__(self, owner: Subscription) -> None:
        self.owner = owner
        self.claimed: dict[int, None] = {}


class Groups:
    """The owned groups of one queue, the one that was silent longest first."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: OrderedDict[str, Group] = OrderedDict()

    def owned_by(self, owner: Subscription) -> list[str]:
        """The groups of one consumer."""
        return [name for name, group in self.by_id.items() if group.owner is owner]


@mypyc_attr(allow_interpreted_subclasses=True)
class Grouping:
    """Policy ``grouping``."""

    def owner(self, groups: Groups, message: Message) -> Subscription | None:
        """Who alone may have this message of a group; None: anybody."""
        group = groups.by_id.get(message.group_id)
        return None if group is None else group.owner

    def given(self, groups: Groups, message: Message, to: Subscription) -> list[str]:
        """A message of a group goes to that consumer; gives the groups that are free from now on."""
        name = message.group_id
        fresh = name not in groups.by_id
        if fresh:
            message.properties = {**message.properties, FIRST: True}
            groups.by_id[name] = Group(to)
        elif message.has(FIRST):
            message.properties = {key: value for key, value in message.properties.items() if key != FIRST}
        groups.by_id.move_to_end(name)
        if self.closes(message):
            return [name]
        return [next(iter(groups.by_id))] if len(groups.by_id) > CAPACITY else []

    def closes(self, message: Message) -> bool:
        """Whether the group ends with this message."""
        return message.group_sequence < 0

    def freed(self, groups: Groups, owner: Subscription) -> list[str]:
        """The groups that are free because their owner leaves."""
        return groups.owned_by(owner)
