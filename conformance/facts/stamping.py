"""Stamping: what a broker puts on a message when it takes it over (the TimeStampingBrokerPlugin's rule), as a function
of the broker's clock; and the expiration that is in force afterwards, with bounds.

The rule (seed 000, part 2; edges measured on ActiveMQ 5.17):

1. A timestamp <= 0 means that the producer sent none on purpose: nothing is touched. No timestamp at all (STOMP
   without the header): the broker's time counts as sent.
2. Time to live = expiration - timestamp if there is an expiration (> 0), else the zero-expiration override; a ceiling
   > 0 caps it.
3. New expiration = broker's time + time to live. Under ``future_only`` nothing is touched unless it is later than the
   old one.
4. Else the timestamp becomes the broker's time, and the expiration the new one if time to live and new expiration are
   positive.

Under ``future_only`` two readings are about (generations of time-stamping, DESIGN section 4). ActiveMQ's comparison
sees the *capped* value, so a ceiling that would lower the expiration is ignored; and it takes an absent expiration for
the lowest, so that the timestamp may move backwards. As documented, the timestamp becomes the later of the two and a
capped time to live counts from there. They differ only where ``divided`` says so; there, bounds cover both, and
TSP-011 and TSP-012 say which one a broker follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import TimeStampingSpec
    from brokerproof.conformance.experiment.history import Send

INT64_MAX = 2**63 - 1
#: A difference between clocks that transit does not explain.
SKEW_MS = 50
#: How the producer's clock stood to the broker's, as situations.
UNSTAMPED = "the producer sent no timestamp"
AHEAD = "the producer's clock was ahead of the broker's"
BEHIND = "the producer's clock was behind the broker's"
AGREED = "the producer's and the broker's clocks agreed"


class Stamps(NamedTuple):
    """Timestamp and expiration of a message, and whether the broker changed them."""

    timestamp_ms: int
    expiration_ms: int
    acted: bool


def ttl_ms(spec: TimeStampingSpec, timestamp_ms: int, expiration_ms: int) -> int:
    """Rule 2; 0 or less: none."""
    ttl = expiration_ms - timestamp_ms if expiration_ms > 0 else spec.zero_expiration_override_ms
    return min(ttl, spec.ttl_ceiling_ms) if spec.ttl_ceiling_ms > 0 else ttl


def stamps_of(spec: TimeStampingSpec | None, timestamp_ms: int | None, expiration_ms: int, wall_ms: int) -> Stamps:
    """What a message carries after a broker whose clock reads ``wall_ms`` took it over; ``spec`` None: the plug-in is
    absent.
    """
    sent_ms = wall_ms if timestamp_ms is None else timestamp_ms
    if spec is None or sent_ms <= 0:
        return Stamps(sent_ms, expiration_ms, False)
    ttl = ttl_ms(spec, sent_ms, expiration_ms)
    new_ms = wall_ms + ttl
    if new_ms > INT64_MAX:
        new_ms -= 2**64
    if spec.future_only and new_ms <= expiration_ms:
        return Stamps(sent_ms, expiration_ms, False)
    return Stamps(wall_ms, new_ms if ttl > 0 and new_ms > 0 else expiration_ms, True)


def divided(spec: TimeStampingSpec, timestamp_ms: int, expiration_ms: int) -> bool:
    """Whether the two readings of ``future_only`` may differ for this message."""
    if not spec.future_only:
        return False
    return expiration_ms <= 0 or 0 < spec.ttl_ceiling_ms < expiration_ms - timestamp_ms


def documented_ms(spec: TimeStampingSpec, timestamp_ms: int, expiration_ms: int, wall_ms: int) -> int:
    """The expiration by the documented reading of ``future_only``, for a message with an expiration that the ceiling
    caps.
    """
    return max(timestamp_ms, wall_ms) + ttl_ms(spec, timestamp_ms, expiration_ms)


class Force(NamedTuple):
    """Bounds of the expiration in force, in milliseconds; ``high_ms`` <= 0: the message never expires."""

    low_ms: int
    high_ms: int


def force_of(spec: TimeStampingSpec | None, send: Send, low_ms: int, high_ms: int) -> Force:
    """Bounds of the expiration after the send, if the broker's clock read something in ``[low_ms, high_ms]`` when it
    took the message over.

    The rule is monotone in the broker's clock when the timestamp was sent, so the two ends bound it. Without a
    timestamp the time to live is measured by the same clock, and the expiration stays what it was, give or take the
    width.
    """
    if spec is None or (send.timestamp_ms is not None and send.timestamp_ms <= 0):
        return Force(send.expiration_ms, send.expiration_ms)
    low = stamps_of(spec, send.timestamp_ms, send.expiration_ms, low_ms).expiration_ms
    high = stamps_of(spec, send.timestamp_ms, send.expiration_ms, high_ms).expiration_ms
    if send.timestamp_ms is None and send.expiration_ms > 0:
        width = high_ms - low_ms
        low, high = min(low, high) - width, max(low, high) + width
    sent_ms = low_ms if send.timestamp_ms is None else send.timestamp_ms
    if send.expiration_ms > 0 and divided(spec, sent_ms, send.expiration_ms):
        low = min(low, documented_ms(spec, sent_ms, send.expiration_ms, low_ms))
        high = max(high, documented_ms(spec, sent_ms, send.expiration_ms, high_ms))
    return Force(min(low, high), max(low, high))


def relative_force(spec: TimeStampingSpec | None, life_ms: int, low_ms: int, high_ms: int) -> Force:
    """Bounds of the expiration of a message with a time to live by the broker's clock."""
    if spec is not None and spec.ttl_ceiling_ms > 0:
        life_ms = min(life_ms, spec.ttl_ceiling_ms)
    return Force(low_ms + life_ms, high_ms + life_ms)


def skew_of(timestamp_ms: int | None, low_ms: int, high_ms: int) -> str:
    """How the producer's clock stood to the broker's, as a situation."""
    if timestamp_ms is None:
        return UNSTAMPED
    if timestamp_ms > high_ms + SKEW_MS:
        return AHEAD
    if timestamp_ms < low_ms - SKEW_MS:
        return BEHIND
    return AGREED
