"""TimeStampingBrokerPlugin: the broker's clock replaces the producer's, once per send, before the arrival expiry check
(seed 000).

It decides the timestamp and the expiration of an arriving message. The table of its edges is
``tests/fast/reference_broker/core/test_timestamping.py``.

Rules, in order:
1. Left alone: a message without a timestamp (``timestamp_ms <= 0``), a dead-letter copy made by this broker (those
   never come here), and a message that came over a network bridge unless ``process_network_messages``.
2. Its time to live is ``expiration - timestamp`` if it has an expiration (> 0), else ``zero_expiration_override_ms``;
   then capped at ``ttl_ceiling_ms`` if that is > 0.
3. The new expiration is the broker's time + that time to live, in 64-bit arithmetic that wraps as Java's does.
4. Under ``future_only``, by generation:

   * ``documented``: both stamps move forward only. The timestamp is the later of the producer's and the broker's, and
     a capped time to live is counted from that one; so the ceiling holds, and it alone can lower an expiration. An
     absent expiration is not comparable: an override is applied to it whatever the clocks say.
   * ``classic`` (ActiveMQ 5.3 to 6.4): a message is left alone unless the new expiration is *later* than the one it
     came with; an absent one is 0, so every new value is later.
5. Otherwise the expiration is replaced if both the time to live and the new expiration are > 0, and the timestamp is
   replaced in any case.

What an operator moves is stamped again only with ``restamp_moved``; ActiveMQ always does: a move restarts the time to
live.

What ``classic`` means for an operator:

* ``future_only`` and no expiration: the timestamp is replaced even if that moves it backwards.
* ``future_only`` switches the ceiling off whenever capping would lower the expiration: rule 4 sees the capped value.

Exception, in both generations because today's ActiveMQ does the same and an operator expects it: a message that is
expired for its own producer (``expiration <= timestamp``) gets the broker's timestamp and keeps its expiration: it may
be expired on arrival. Under ``future_only`` it is left alone unless the broker's time is later than that timestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import TimeStamping
    from brokerproof.reference_broker.core.message import Message

LOGGER = "org.apache.activemq.broker.util.TimeStampingBrokerPlugin"


def wrap_int64(value: int) -> int:
    """``value`` as a signed 64-bit integer, overflow wrapping."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


@mypyc_attr(allow_interpreted_subclasses=True)
class Stamping:
    """Policy ``timestamping``, generation ``documented``. ``settings`` None: the plug-in is not installed, messages
    pass untouched.
    """

    def __init__(self, settings: TimeStamping | None) -> None:
        self.settings = settings

    def applies(self, message: Message, network: bool) -> bool:
        """Rule 1."""
        settings = self.settings
        return settings is not None and message.timestamp_ms > 0 and (settings.process_network_messages or not network)

    def stamps_moved(self) -> bool:
        """Whether what an operator moves is stamped as what is sent."""
        return self.settings is not None and self.settings.restamp_moved

    def ceiling_ms(self, *, network: bool) -> int:
        """The ceiling of times to live; 0 or less: none. What came over a bridge has one only if that is stamped."""
        settings = self.settings
        if settings is None or (network and not settings.process_network_messages):
            return 0
        return settings.ttl_ceiling_ms

    def ttl_ms(self, message: Message, settings: TimeStamping) -> int:
        """Rule 2."""
        ttl = settings.zero_expiration_override_ms
        if message.expiration_ms > 0:
            ttl = message.expiration_ms - message.timestamp_ms
        if 0 < settings.ttl_ceiling_ms < ttl:
            ttl = settings.ttl_ceiling_ms
        return ttl

    def stamp(self, message: Message, wall_ms: int, network: bool) -> None:
        """Rewrite the message in place by the broker's clock."""
        settings = self.settings
        if settings is None or not self.applies(message, network):
            return
        ttl_ms = self.ttl_ms(message, settings)
        if settings.future_only:
            self.stamp_forward(message, ttl_ms, wall_ms)
        else:
            self.replace(message, ttl_ms, wall_ms)

    def replace(self, message: Message, ttl_ms: int, wall_ms: int) -> None:
        """Rule 5."""
        expiration_ms = wrap_int64(ttl_ms + wall_ms)
        if ttl_ms > 0 and expiration_ms > 0:
            message.expiration_ms = expiration_ms
        message.timestamp_ms = wall_ms

    def stamp_forward(self, message: Message, ttl_ms: int, wall_ms: int) -> None:
        """Rule 4."""
        old_ms, sent_ms = message.expiration_ms, message.timestamp_ms
        if old_ms <= 0:
            new_ms = wrap_int64(ttl_ms + wall_ms)
            if ttl_ms > 0 and new_ms > 0:
                message.expiration_ms = new_ms
        elif ttl_ms > 0:
            new_ms = wrap_int64(ttl_ms + max(sent_ms, wall_ms))
            if new_ms <= 0:
                return
            message.expiration_ms = new_ms
        message.timestamp_ms = max(sent_ms, wall_ms)


@mypyc_attr(allow_interpreted_subclasses=True)
class ClassicStamping(Stamping):
    """Policy ``timestamping``, generation ``classic``."""

    def stamp_forward(self, message: Message, ttl_ms: int, wall_ms: int) -> None:
        if wrap_int64(ttl_ms + wall_ms) > message.expiration_ms:
            self.replace(message, ttl_ms, wall_ms)
