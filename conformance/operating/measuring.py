"""The ways to read a broker's clock from outside, and to see whether it stamps messages with it.

Ways, best first, by what the broker offers:

* ``stamp``: the broker stamps a message that brings no timestamp; to the millisecond, as wide as one exchange.
* ``expiry``: a message either is dead when it arrives, or not; by halving, as narrow as an exchange. For brokers that
  stamp nothing. Useless behind a time-stamping plug-in, which rewrites the expiration.
* ``management``: Jolokia's answers carry the second; the moment at which it changes is caught between two requests.

Rules: everything happens on a temporary queue, in messages that are not persistent, and nothing is left behind; on a
broker without temporary queues an empty queue is.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from brokerproof.conformance.brokers.line import ANSWER_MS, Line, ProbeError
from brokerproof.conformance.operating.offset import FOREVER_MS, Offset, Reading, joined

if TYPE_CHECKING:
    from brokerproof.chaos.brokers.jolokia import Jolokia

STAMPS: Final = 12
#: Messages that the halving may take; it begins with a minute and doubles.
MOST_PROBES: Final = 80
FIRST_STEP_MS: Final = 60_000
WIDTH_MS: Final = 2.0
#: Jolokia shows whole seconds: watch for a little more than one.
WATCH_MS: Final = 1300
SECOND_MS: Final = 1000

ABSENT: Final = "absent"
ALWAYS: Final = "always"
FUTURE_ONLY: Final = "futureOnly"
#: How far in the future and past the plug-in's probes are stamped, and how long they live.
_FAR_MS: Final = 3_600_000
_TTL_MS: Final = 600_000

Wall = Callable[[], float]


class CannotTell(Exception):
    """The broker does not offer this way. The text says what it does instead."""


class Exchange(Protocol):
    """Sends a message to itself through the broker; gives what came back: (timestamp, expiration), or None: it died."""

    def __call__(self, timestamp_ms: int | None, expiration_ms: int) -> tuple[int, int] | None: ...


def wall_ms() -> float:
    """This host's clock."""
    return time.time_ns() / 1e6


def by_stamp(exchange: Exchange, wall: Wall = wall_ms) -> Offset:
    """The broker stamps what brings no timestamp. Raises ``CannotTell``."""
    readings = []
    for _ in range(STAMPS):
        t0 = wall()
        came = exchange(None, 0)
        if came is None or came[0] <= 0:
            raise CannotTell("the broker stamps no message")
        readings.append(Reading(t0, wall(), came[0], came[0] + 1))
    return joined(readings, "stamp")


def by_expiry(exchange: Exchange, wall: Wall = wall_ms) -> Offset:
    """A message that expires at E is alive before E by the broker's clock, then dead. Raises ``CannotTell``."""
    readings: list[Reading] = []
    low, high = -FOREVER_MS, FOREVER_MS
    step = float(FIRST_STEP_MS)
    guess = 0.0
    for _ in range(MOST_PROBES):
        t0 = wall()
        edge = max(int(t0 + guess), 1)
        alive = exchange(None, edge) is not None
        found = Reading(t0, wall(), -FOREVER_MS, edge) if alive else Reading(t0, wall(), edge, FOREVER_MS)
        readings.append(found)
        one, other = found.bounds()
        low, high = max(low, one), min(high, other)
        if high - low <= WIDTH_MS + (found.t1_ms - found.t0_ms):
            break
        if low > -FOREVER_MS and high < FOREVER_MS:
            guess = (low + high) / 2
        else:
            guess += -step if alive else step
            step *= 2
    if low == -FOREVER_MS or high == FOREVER_MS:
        raise CannotTell(f"messages {'do not expire' if low == -FOREVER_MS else 'are never alive'} on arrival there")
    return joined(readings, "expiry")


def by_management(jolokia: Jolokia, wall: Wall = wall_ms) -> Offset:
    """Catch the change of the second in Jolokia's answers."""
    readings: list[Reading] = []
    begun = wall()
    while not readings or wall() - begun < WATCH_MS:
        t0 = wall()
        shown_ms = jolokia.clock().wall_ms
        readings.append(Reading(t0, wall(), shown_ms, shown_ms + SECOND_MS))
    return joined(readings, "management")


def plug_in(exchange: Exchange, offset: Offset, wall: Wall = wall_ms) -> str | None:
    """How the broker restamps: ``absent``, ``always`` or ``futureOnly``; None: it cannot be seen."""
    broker_ms = int(wall() + offset.middle_ms)
    past = exchange(broker_ms - _FAR_MS, broker_ms - _FAR_MS + _FAR_MS + _TTL_MS)
    if past is None:
        return None
    if past[0] == broker_ms - _FAR_MS:
        return ABSENT
    future = exchange(broker_ms + _FAR_MS, broker_ms + _FAR_MS + _TTL_MS)
    if future is None:
        return None
    return FUTURE_ONLY if future[1] == broker_ms + _FAR_MS + _TTL_MS else ALWAYS


class StompExchange:
    """``Exchange`` over one STOMP connection."""

    def __init__(self, line: Line, dest: str) -> None:
        self._line = line
        self._dest = dest
        self._number = 0
        line.subscribe(dest)

    def __call__(self, timestamp_ms: int | None, expiration_ms: int) -> tuple[int, int] | None:
        self._number += 1
        headers = {"expires": str(expiration_ms)} if expiration_ms else {}
        if timestamp_ms is not None:
            headers["timestamp"] = str(timestamp_ms)
        self._line.send(self._dest, f"probe {self._number}", **headers)
        if expiration_ms:
            # If the probe is dead, what was sent after it comes first.
            self._line.send(self._dest, f"after {self._number}")
        found = self._message()
        if expiration_ms and found.body == f"probe {self._number}".encode():
            self._message()
        elif expiration_ms:
            return None
        return _number(found.headers.get("timestamp")), _number(found.headers.get("expires"))

    def _message(self) -> Any:
        found = self._line.message(ANSWER_MS)
        if found is None:
            raise ProbeError("the broker does not deliver the message that was sent to it")
        return found


def stomp_exchange(connect: Callable[[], Line]) -> tuple[Line, StompExchange]:
    """A connection and an exchange on it, on a temporary queue if the broker has such. Raises as ``Line`` does."""
    line = connect()
    try:
        return line, StompExchange(line, "/temp-queue/clock")
    except ProbeError:
        line.__exit__()
    line = connect()
    return line, StompExchange(line, f"/queue/clock.bp{secrets.token_hex(4)}")


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.lstrip("-").isdigit() else 0
