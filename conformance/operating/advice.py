"""Seed 000's advice, from measured bounds: what two clocks that differ do to messages that expire, and the remedy.

Names: P, B and C are the clocks of producer, broker and consumer; a message lives ``ttl`` from P. Without a plug-in it
is dead at the broker if ``B - P > ttl``. A time-stamping plug-in computes the expiration from B; then a JMS consumer
discards it if ``C - B > ttl``. With futureOnly the later of both counts, so neither happens, and the message may live
longer by ``P - B``, as it does without a plug-in.

Rules: this host is taken for producer and for consumer, unless somebody else's clock is known who sends (``sender``).
What is sure for every offset within the bounds is a yes or a no, everything else is unknown.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from brokerproof.conformance.operating.answer import NOTE, UNKNOWN, Answer, said
from brokerproof.conformance.operating.measuring import ABSENT, ALWAYS, FUTURE_ONLY

if TYPE_CHECKING:
    from brokerproof.conformance.operating.offset import Offset

#: How the broker restamps -> how the report calls it.
MODES: Final = {
    ABSENT: "without a time-stamping plug-in",
    ALWAYS: "with the TimeStampingBrokerPlugin",
    FUTURE_ONLY: 'with the TimeStampingBrokerPlugin, futureOnly="true"',
}
#: A time to live as short as this is over on the way, whatever the clocks say.
NEGLIGIBLE_MS: Final = 10
_SYNC: Final = "synchronise the clocks of all machines that exchange messages (NTP)"


def smallest_ttl_ms(offset: Offset, mode: str, *, surely: bool = True, sender: Offset | None = None) -> int:
    """The smallest time to live that is safe for messages to this host; not ``surely``: may be safe."""
    side = 1 if surely else 0
    ahead_ms = 0.0 if mode != ABSENT else _bounds(sender or offset)[side]
    skew_ms = max(ahead_ms, _consumer_ahead(offset, mode, sender)[side])
    return math.ceil(max(0.0, skew_ms) + offset.trip_ms) + 1


def _bounds(offset: Offset) -> tuple[float, float]:
    return offset.low_ms, offset.high_ms


def _consumer_ahead(offset: Offset, mode: str, sender: Offset | None) -> tuple[float, float]:
    """Between what this host is ahead of the clock that an expiration is counted from."""
    of_broker = -offset.high_ms, -offset.low_ms
    of_sender = (0.0, 0.0) if sender is None else (sender.low_ms - offset.high_ms, sender.high_ms - offset.low_ms)
    later = min(of_broker[0], of_sender[0]), min(of_broker[1], of_sender[1])
    return {ABSENT: of_sender, ALWAYS: of_broker, FUTURE_ONLY: later}[mode]


def answers(
    offset: Offset, mode: str | None, tolerance_ms: int, ttl_ms: int | None, sender: Offset | None = None
) -> list[Answer]:
    """What the measurement means."""
    differs = offset.exceeds(tolerance_ms)
    found = [
        Answer(
            "clocks-differ",
            f"Does the broker's clock differ from this host's by more than {tolerance_ms} ms?",
            said(differs if offset.steady else None),
            [_measured(offset)],
            _SYNC if differs else "",
            problem=ttl_ms is None,
        ),
        Answer(
            "plug-in",
            "Does the broker stamp messages with its own clock (TimeStampingBrokerPlugin)?",
            UNKNOWN if mode is None else said(mode != ABSENT),
            [f"it is set up {MODES[mode]}"] if mode is not None and mode != ABSENT else [],
            _plug_in(offset, mode, differs),
        ),
        _dead_on_arrival(sender or offset, mode),
        _discarded(offset, mode, sender),
        _longer(sender or offset, mode, tolerance_ms),
    ]
    smallest = [
        f"{smallest_ttl_ms(offset, one, sender=sender)} ms {text}{', as it is now' if one == mode else ''}"
        for one, text in MODES.items()
    ]
    if ttl_ms is None:
        found.append(Answer("smallest-ttl", "The smallest safe time to live, beside the time to work:", NOTE, smallest))
    else:
        found.append(_ttl(offset, mode or ABSENT, ttl_ms, smallest, sender))
    return found


def _measured(offset: Offset) -> str:
    if not offset.steady:
        return (
            f"a clock moved while it was measured: the readings say {offset.low_ms:+.1f} to {offset.high_ms:+.1f} ms "
            f"(by {offset.way}, {offset.readings} readings)"
        )
    direction = "no difference can be seen" if offset.low_ms <= 0 <= offset.high_ms else "the broker is behind"
    if offset.low_ms > 0:
        direction = "the broker is ahead"
    return (
        f"broker minus this host: {offset.middle_ms:+.1f} ms +/- {offset.plus_minus_ms:.1f} ms ({direction}; by "
        f"{offset.way}, {offset.readings} readings, quickest exchange {offset.trip_ms:.1f} ms)"
    )


def _plug_in(offset: Offset, mode: str | None, differs: bool | None) -> str:
    if differs is False:
        return "none is needed while the clocks agree"
    if differs is None:
        return ""
    if offset.low_ms > 0:
        if mode == ABSENT:
            return 'add the TimeStampingBrokerPlugin if the clocks cannot be synchronised, with futureOnly="true"'
        return ""
    if mode == ALWAYS:
        return 'set futureOnly="true": the expiration is then never lowered, and consumers here get their messages'
    return "" if mode == FUTURE_ONLY else 'do not add one without futureOnly="true": the broker is behind this host'


def _dead_on_arrival(offset: Offset, mode: str | None) -> Answer:
    """Scenario 1 of the seed: the broker is ahead of the producer."""
    ahead = offset.low_ms > NEGLIGIBLE_MS
    possible: bool | None = None if offset.high_ms > NEGLIGIBLE_MS else False
    if mode is not None and mode != ABSENT:
        possible = False
    elif mode == ABSENT and ahead:
        possible = True
    return Answer(
        "dead-on-arrival",
        "Are messages from this host dead on arrival, when their time to live is short?",
        said(possible),
        [f"a time to live below {math.floor(offset.low_ms)} ms is over when the broker looks at it"]
        if possible
        else [],
        f"{_SYNC}; or send a time to live of at least {smallest_ttl_ms(offset, ABSENT)} ms and the time to work; or "
        'add the TimeStampingBrokerPlugin with futureOnly="true"'
        if possible
        else "",
    )


def _discarded(offset: Offset, mode: str | None, sender: Offset | None) -> Answer:
    """Scenario 2: the consumer is ahead of the clock that the expiration is counted from: the broker's, if it stamps,
    else the producer's.
    """
    low_ms, high_ms = _consumer_ahead(offset, mode or ALWAYS, sender)
    possible: bool | None = None if high_ms > NEGLIGIBLE_MS else False
    if mode is not None and low_ms > NEGLIGIBLE_MS:
        possible = True
    cure = 'set futureOnly="true"; or ' if mode == ALWAYS and sender is None else ""
    return Answer(
        "discarded-by-consumers",
        "Do JMS consumers on this host discard messages that the broker still takes for alive?",
        said(possible),
        [f"a time to live below {math.floor(low_ms)} ms is over when the consumer looks at it"] if possible else [],
        f"{cure}{_SYNC}; or consume over STOMP, which does not look" if possible else "",
    )


def _longer(sender: Offset, mode: str | None, tolerance_ms: int) -> Answer:
    """The producer is ahead of the broker, which does not lower expirations."""
    extra_ms = -sender.high_ms
    possible: bool | None = None if -sender.low_ms > tolerance_ms else False
    if mode == ALWAYS:
        possible = False
    elif mode is not None and extra_ms > tolerance_ms:
        possible = True
    return Answer(
        "lives-longer",
        "Do messages live longer at the broker than their senders ask?",
        said(possible),
        [f"by {math.floor(extra_ms)} ms: as much as their sender is ahead of the broker"] if possible else [],
        f"{_SYNC}; or set a ttlCeiling" if possible else "",
    )


def _ttl(offset: Offset, mode: str, ttl_ms: int, smallest: list[str], sender: Offset | None) -> Answer:
    surely_safe = ttl_ms >= smallest_ttl_ms(offset, mode, sender=sender)
    surely_short = ttl_ms < smallest_ttl_ms(offset, mode, surely=False, sender=sender) - 1
    return Answer(
        "ttl",
        f"Is a time to live of {ttl_ms} ms too short here?",
        said(False if surely_safe and offset.steady else True if surely_short and offset.steady else None),
        [f"smallest safe one, beside the time to work: {text}" for text in smallest],
        ""
        if surely_safe
        else f"{_SYNC}, or send at least {smallest_ttl_ms(offset, mode, sender=sender)} ms and the time to work",
        problem=True,
    )
