"""Operations: what a client or its environment does, as plain data with concrete names. Each exists here once.

A step of a program resolves its ordinals to one of them (``experiment/steps``), a port of a world carries it out
(``worlds/port.py``), the executor records it with its outcome, and an agent is asked for it in these very words
(docs/agents.md). ``host`` is who does it; an agent is a host, so it is not told.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal

import msgspec

AckMode = Literal["auto", "client", "individual"]
AckType = Literal["delivered", "poison", "standard", "redelivered", "individual", "unmatched", "expired"]
#: OpenWire's numbers are the places.
ACK_TYPES: Final[tuple[AckType, ...]] = (
    "delivered",
    "poison",
    "standard",
    "redelivered",
    "individual",
    "unmatched",
    "expired",
)
#: Those that settle what they name.
SETTLING: Final = ("poison", "standard", "individual", "expired")
#: A message id that no broker has given, in the form that OpenWire brokers write.
NO_MESSAGE: Final = "ID:brokerproof-no-such-message-0:1:1:1:1"


class Operation(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="do", forbid_unknown_fields=True, omit_defaults=True
):
    """Common to all."""


# -- a client's


class ClientOperation(Operation, frozen=True, kw_only=True):
    """Common to what a client does."""

    host: str = ""


class Connect(ClientOperation, frozen=True, kw_only=True, tag="connect"):
    """Connect to the broker.

    ``heartbeat_ms``: STOMP's (what the client sends, what it wants). ``monitor_ms``: OpenWire's (read period, initial
    delay); null: the library's default. ``expiry_check`` False is JMS ``consumerExpiryCheckEnabled=false``.
    """

    url: str
    heartbeat_ms: tuple[int, int] = (0, 0)
    monitor_ms: tuple[int, int] | None = None
    expiry_check: bool = True
    client_id: str = ""


class Send(ClientOperation, frozen=True, kw_only=True, tag="send"):
    """Send one message, whose properties are those of the step ``send``; it is part of the transaction ``tx``."""

    dest: str
    message: str
    ttl_ms: int = 0
    delay_ms: int = 0
    persistent: bool = True
    priority: int = 4
    size: int = 0
    stamp: Literal["client", "none", "zero"] = "client"
    kind: str = ""
    group: str = ""
    life_ms: int = 0
    deliver_in_ms: int = 0
    forged: int = 0
    reply: bool = False
    network: bool = False
    endless: bool = False
    preset_in_ms: int = 0
    again: bool = False
    tx: str = ""


class Subscribe(ClientOperation, frozen=True, kw_only=True, tag="subscribe"):
    """Attach a consumer under a name that was never used before. ``dest`` may be a wildcard.

    A ``prefetch`` of null asks for nothing: the library's own default, if it has one, is what the broker hears.
    ``durable`` names a durable subscription of the host.
    """

    dest: str
    consumer: str
    prefetch: int | None = 1000
    dispatch: Literal["async", "sync"] = "async"
    ack: AckMode = "client"
    selector: str = ""
    durable: str = ""
    browser: bool = False
    exclusive: bool = False
    no_local: bool = False
    priority: int = 0


class Unsubscribe(ClientOperation, frozen=True, kw_only=True, tag="unsubscribe"):
    """End a durable subscription of this host that no consumer uses."""

    durable: str


class Take(ClientOperation, frozen=True, kw_only=True, tag="take"):
    """Give the application one message, if one comes within the deadline. A consumer without a prefetch asks for it."""

    consumer: str
    deadline_ms: int = 0


class Ack(ClientOperation, frozen=True, kw_only=True, tag="ack"):
    """Settle these messages, oldest first, as part of ``tx``."""

    consumer: str
    messages: list[str]
    mode: Literal["cumulative", "individual"] = "cumulative"
    tx: str = ""


class Nack(ClientOperation, frozen=True, kw_only=True, tag="nack"):
    """Reject these messages (STOMP NACK, OpenWire POISON), outside of any transaction."""

    consumer: str
    messages: list[str]


class Acknowledge(ClientOperation, frozen=True, kw_only=True, tag="acknowledge"):
    """Send an acknowledgement past the library, from the first of these messages to the last.

    ``open_start`` leaves the first id out; ``wrong_end`` names a last message that does not exist.
    """

    consumer: str
    messages: list[str]
    type: AckType
    open_start: bool = False
    wrong_end: bool = False

    def settled(self) -> list[str]:
        """Which of the messages it settles: all, or none."""
        return self.messages if self.type in SETTLING and not self.wrong_end else []

    def ends(self, ids: list[str]) -> tuple[str, str]:
        """What it names of the broker's ids of its messages: the first, "" for the oldest, and the last."""
        return "" if self.open_start else ids[0], NO_MESSAGE if self.wrong_end else ids[-1]


class Leave(ClientOperation, frozen=True, kw_only=True, tag="leave"):
    """A consumer says goodbye, without waiting for the broker's answer; without one the whole connection does
    (``close``), or the host's socket (``drop``) or process (``kill``) vanishes.
    """

    consumer: str | None = None
    how: Literal["close", "drop", "kill"] = "close"


class Begin(ClientOperation, frozen=True, kw_only=True, tag="begin"):
    """Begin a transaction under this name."""

    tx: str


class Commit(ClientOperation, frozen=True, kw_only=True, tag="commit"):
    """Commit it."""

    tx: str


class Abort(ClientOperation, frozen=True, kw_only=True, tag="abort"):
    """Roll it back."""

    tx: str


# -- the environment's


class ClockJump(Operation, frozen=True, kw_only=True):
    """A host's wall clock jumps, its monotonic one does not."""

    host: str
    jump_ms: int


class Stall(Operation, frozen=True, kw_only=True):
    """The link of a client holds back what travels ``toward`` one end."""

    link: str
    toward: Literal["client", "broker", "both"]


class Resume(Operation, frozen=True, kw_only=True):
    """It flows again; ``toward``: where it was stalled."""

    link: str
    toward: str


class Restart(Operation, frozen=True, kw_only=True):
    """The broker is stopped or killed and comes back with what it had stored."""

    how: Literal["stop", "kill"]


class Pause(Operation, frozen=True, kw_only=True):
    """The broker's process stands still."""

    ms: int


class Operate(Operation, frozen=True, kw_only=True):
    """An operator's request: ``purge`` a queue, ``move`` what waits there ``to`` another, ``reset`` its totals, set the
    memory ``limit`` of the broker.
    """

    op: Literal["purge", "move", "reset", "limit"]
    dest: str = ""
    to: str = ""
    limit_bytes: int = 0


class Probe(Operation, frozen=True, kw_only=True):
    """Raw peers come and go: the fields of the step ``visit``."""

    via: Literal["stomp", "openwire"]
    hello: Literal["good", "none", "half", "early", "bad"]
    fault: int = 0
    offer_ms: tuple[int, int] = (0, 0)
    says: Literal["nothing", "beats", "asks", "part"] = "nothing"
    every_ms: int = 100
    talk_ms: int = 0
    deaf: bool = False
    ms: int = 1000
    times: int = 1


class ReadCounters(Operation, frozen=True, kw_only=True, tag="counters"):
    """Read the broker's figures of a destination, or (null) of the broker."""

    dest: str | None = None
    at_rest: bool = False


class Advance(Operation, frozen=True, kw_only=True):
    """True time passes."""

    ms: int


class Settle(Operation, frozen=True, kw_only=True):
    """Wait until nothing moves, at most so long, then read all counters."""

    deadline_ms: int


def shared(source: msgspec.Struct, target: type[msgspec.Struct], *but: str) -> dict[str, Any]:
    """The values of all fields that two kinds of data have in common, except ``but``."""
    return {name: getattr(source, name) for name in _common(type(source), target) if name not in but}


@cache
def _common(source: type[msgspec.Struct], target: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in source.__struct_fields__ if name in target.__struct_fields__)
