"""What a client may ask for when it subscribes, and what it is granted.

``receive`` comes before anything changes: a consumer with its window and its selector, or the reason why there is none
(``bad-destination``, ``bad-prefetch``, ``bad-selector``). Only queues can be browsed. The policy entry of the
destination that is named first counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core.effects import Granted
from brokerproof.reference_broker.core.matching import consumer_fault, is_queue, members, policy_for
from brokerproof.reference_broker.core.prefetch import UNASKED
from brokerproof.reference_broker.core.selector import BadSelector
from brokerproof.reference_broker.core.subscription import Consumer

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.events import Subscribe
    from brokerproof.reference_broker.core.region import Region


class SubscribeRefused(Exception):
    """Why a client cannot subscribe so: a stable code, and a text with the value and the remedy."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def receive(region: Region, event: Subscribe) -> Consumer:
    """The consumer that is asked for. Raises ``SubscribeRefused``."""
    wrong = consumer_fault(event.destination)
    if wrong:
        raise SubscribeRefused("bad-destination", wrong)
    names = members(event.destination)
    if event.browser and not all(is_queue(name) for name in names):
        raise SubscribeRefused("bad-destination", f"{event.destination!r} is no queue; only queues can be browsed")
    if event.prefetch < UNASKED:
        text = f"prefetch {event.prefetch} is negative; use 0 or more, or -1 for the default"
        raise SubscribeRefused("bad-prefetch", text)
    if event.retroactive and event.durable:
        text = f"durable subscription {event.durable!r} cannot be retroactive; leave one of the two out"
        raise SubscribeRefused("retroactive-durable", text)
    if event.pending_limit < 0:
        text = f"maximum pending message limit {event.pending_limit} is negative; use 0 (none of its own) or more"
        raise SubscribeRefused("bad-pending-limit", text)
    entry = policy_for(names[0], region.config.destinations)
    try:
        return Consumer(event, region.policies.prefetch.granted(event, entry), entry.use_prefetch_extension)
    except BadSelector as bad:
        raise SubscribeRefused("bad-selector", str(bad)) from None


def grant_prefetch(region: Region, event: Subscribe, consumer: Consumer) -> None:
    """A consumer that asked for another prefetch than it got is told so."""
    if consumer.prefetch != event.prefetch >= 0:
        granted = Granted(event.connection, consumer.name, event.destination, consumer.prefetch)
        region.effects.append(granted)
