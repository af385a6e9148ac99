"""What happens to a message between a producer and the destinations that get it.

* A request for statistics goes nowhere; its answers do (``statistics.py``).
* ``objection`` comes before anything changes; ``take_over`` makes the message the broker's own (number, stamp);
  ``admit`` puts it where it belongs: nowhere if it is expired, aside until it is due, else on its destination. A send
  in a transaction is taken over at once and admitted at the commit.
* A sent message is stamped and marked in place. One that goes to several destinations (``routing.py``) is stamped
  first; then each gets a copy, with a number of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.reference_broker.core import delay, time_to_live, timestamping
from brokerproof.reference_broker.core.effects import Logged
from brokerproof.reference_broker.core.matching import fault, members
from brokerproof.reference_broker.core.temporary import UNKNOWN_DESTINATION
from brokerproof.reference_broker.core.topic import Topic

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.region import Region
    from brokerproof.reference_broker.core.subscription import Subscription


class Arrivals:
    """The way in."""

    __slots__ = ("_region",)

    def __init__(self, region: Region) -> None:
        self._region = region

    def objection(self, message: Message) -> tuple[str, str]:
        """Why a send must be refused: (code, text); ("", "") if nothing is wrong with it."""
        region = self._region
        if region.storage_trouble[0] and message.persistent:
            return region.storage_trouble
        name = message.destination
        destination = region.destinations.get(name)
        if region.statistics is not None and region.statistics.asks(message):
            pass  # it goes nowhere, also if there is a destination of that name
        elif destination is None or destination.spreads:
            code, text = self._objection_to_name(name, message.message_id)
            if code:
                return code, text
        elif destination.holds(message.message_id):
            return "duplicate-id", f"message id {message.message_id!r} is on {name} already; give each message its own"
        if message.opened is None or message.opened:
            wrong = region.policies.relative_ttl.objection(message)
            if wrong:
                return time_to_live.BAD_TTL, wrong
        if message.delay_ms == 0 and message.deliver_at_ms == 0:
            return ("", "") if region.stage is None else region.stage.objection(message)
        code = region.policies.delay.refusal(message, region.now)
        if not code and region.stage is not None:
            return region.stage.objection(message)
        asked = f"delay {message.delay_ms} ms, delivery time {message.deliver_at_ms} ms"
        if code == delay.UNSUPPORTED:
            return code, f"{asked}; this broker delays nothing (delay_support = false), send without"
        return code, f"{asked} at {region.now.wall_ms} ms; wait 0 to {region.policies.delay.max_ms} ms"

    def _objection_to_name(self, destination: str, message_id: str) -> tuple[str, str]:
        """Why nobody can get a message under the name that it is sent to: (code, text)."""
        region = self._region
        for name in members(destination):
            wrong = fault(name)
            if wrong:
                return "bad-destination", wrong
        for name in region.policies.routing.targets(region.routing, destination):
            missing = region.temporaries.missing(name)
            if missing:
                return UNKNOWN_DESTINATION, missing
            target = region.destinations.get(name)
            if target is not None and target.holds(message_id):
                text = f"message id {message_id!r} is on {name} already; give each message its own"
                return "duplicate-id", text
        return "", ""

    def spread(self, message: Message) -> list[Message]:
        """What a message becomes: itself, or a copy for each of the destinations that its name stands for."""
        region = self._region
        if region.statistics is not None and region.statistics.asks(message):
            if message.sequence:  # taken over, and not only looked at
                region.statistics.answer(message)
            return []
        name = message.destination
        destination = region.destinations.get(name)
        if destination is not None and not destination.spreads:
            return [message]
        targets = region.policies.routing.targets(region.routing, name)
        if targets == [name]:
            return [message]
        copies = [region.policies.routing.copy(message, target) for target in targets]
        if message.sequence:
            for copy in copies:
                region.sequence += 1
                copy.sequence = region.sequence
        return copies

    def take_over(self, message: Message, *, network: bool) -> None:
        """The broker accepts the message: from now on it answers for it."""
        region = self._region
        region.number(message)
        stamps = message.timestamp_ms, message.expiration_ms
        if message.opened is None or message.opened:
            region.policies.relative_ttl.take(message)
        region.policies.timestamping.stamp(message, region.now.wall_ms, network)
        if (message.timestamp_ms, message.expiration_ms) != stamps:
            text = f"Set message {message.message_id} timestamp from {stamps[0]} to {message.timestamp_ms}"
            region.effects.append(Logged("DEBUG", timestamping.LOGGER, text))
        if message.ttl_ms > 0:
            ceiling_ms = region.policies.timestamping.ceiling_ms(network=network)
            message.expiration_ms = region.policies.relative_ttl.expiration_ms(message, ceiling_ms, region.now.wall_ms)
        if region.stage is not None:
            region.stage.resolve(message)

    def due_ns(self, message: Message) -> int:
        """When a message that is accepted now is to be delivered, on the monotonic clock; 0: at once."""
        region = self._region
        delay = region.policies.delay
        remaining_ms = delay.remaining_ms(message, region.now)
        return delay.due_ns(remaining_ms, region.now) if remaining_ms > 0 else 0

    def admit(
        self,
        message: Message,
        due_ns: int,
        *,
        committed: bool = False,
        audience: list[Subscription] | None = None,
    ) -> None:
        """Put an accepted message where it belongs. ``committed``: it waited for a commit since it was accepted; then
        only a topic looks at its expiration, and its delay may be over. ``audience``: who matched it at the send.
        """
        region = self._region
        destination = region.destination(message.destination)
        if region.is_expired(message) and not (committed and destination.is_queue):
            destination.refuse_expired(message)
        elif audience is not None and isinstance(destination, Topic):
            destination.schedule_for(message, due_ns, audience)
        elif due_ns and (due_ns > region.now.mono_ns or not committed or region.stage is not None):
            destination.schedule(message, due_ns)
        else:
            destination.publish(message)
            if region.stage is not None:
                region.stage.report(message, "coa")
