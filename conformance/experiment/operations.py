"""Operations: what a client or its environment does, as plain data with concrete names. Each exists here once.

A step of a program resolves its ordinals to one of them (``experiment/steps``), a port of a world carries it out
(``worlds/port.py``), the executor records it with its outcome, and an agent is asked for it in these very words
(docs/agents.md). ``host`` is who does it; an agent is a host, so it is not told.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from brokerproof.conformance.experiment.wire_names import WireNames

if TYPE_CHECKING:
    from collections.abc import Callable

#: The code with which an agent refuses a request that its library cannot make (docs/agents.md).
UNSUPPORTED: Final = "unsupported"
#: That for a request that needs a connection, when there is none.
NOT_CONNECTED: Final = "not-connected"
#: The largest duration a step may name (about 116 days): virtual time is free, real time is not, and 64-bit nanoseconds
#: must not overflow.
MS_MAX: Final = 10_000_000_000
Duration = Annotated[int, msgspec.Meta(ge=0, le=MS_MAX)]
SignedDuration = Annotated[int, msgspec.Meta(ge=-MS_MAX, le=MS_MAX)]


def is_unasked(refusal: str | None) -> bool:
    """Whether an agent refused a request by itself, because its library cannot make it: the broker was not asked."""
    return (refusal or "").startswith(f"{UNSUPPORTED}: ")


def is_alone(refusal: str | None) -> bool:
    """Whether an agent had no connection over which to ask: the broker was not asked either."""
    return (refusal or "").startswith(f"{NOT_CONNECTED}: ")


#: A period as a peer may write it, sensible or not.
Period = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
#: A name or a value that travels in a header: short and harmless.
#: ``correlation-id`` and ``type`` are texts, every other name is a property: an underscore keeps it apart from headers
#: that brokers read. Some of IBM's JMS classes are for queue managers.
_HEADER = "^(correlation-id|type|[a-z]+_[A-Za-z0-9_]*|JMS_IBM_(Report|Retain|MQMD)[A-Za-z_]*)$"
HeaderName = Annotated[str, msgspec.Meta(max_length=40, pattern=_HEADER)]
HeaderText = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00\r\n]*$")]
Headers = dict[HeaderName, bool | int | float | HeaderText]
Word = Annotated[str, msgspec.Meta(max_length=40, pattern="^[A-Za-z0-9_.-]*$")]
#: A façade of JMS, and calls of its producer.
Calls = Annotated[str, msgspec.Meta(pattern="^((classic|simplified)( (life|delay|send)){3})?$")]

#: What a process may have too little of.
Scarce = Literal["descriptors", "processor", "disk", "memory"]
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
    """Common to what a client does. Every one has a ``host``; a field here would keep it from sharing its options."""

    if TYPE_CHECKING:
        host: str


class Connect(ClientOperation, frozen=True, kw_only=True, tag="connect"):
    """Connect to the broker.

    ``heartbeat_ms``: STOMP's (what the client sends, what it wants). ``monitor_ms``: OpenWire's (read period, initial
    delay); null: the library's default. ``expiry_check`` False is JMS ``consumerExpiryCheckEnabled=false``;
    ``transacts``: there will be transactions (JMS). ``virtual_host``, ``versions`` and ``names`` are STOMP's: whom
    CONNECT names, what it offers, and what the broker calls things. ``secure``: the name that the broker's certificate
    must have; ``ca`` a file with who may vouch for it. ``durables``: the durable subscriptions that the host had made
    before, name -> destination, for whom a broker does not let a name turn to another.
    """

    host: str = ""
    url: str
    heartbeat_ms: tuple[int, int] = (0, 0)
    monitor_ms: tuple[int, int] | None = None
    expiry_check: bool = True
    transacts: bool = False
    client_id: str = ""
    login: str = ""
    passcode: str = ""
    virtual_host: str = ""
    versions: tuple[str, ...] = ()
    names: WireNames | None = None
    secure: str = ""
    ca: str = ""
    durables: dict[str, str] = {}


class MessageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for a message, in a step and in an operation.

    ``ttl_ms`` 0 is no expiry; negative means already expired by the producer's own clock (STOMP only). ``stamp`` says
    which timestamp travels: the client's clock, none (the broker stamps; STOMP only), or 0 (disabled, which a
    time-stamping broker must respect). ``kind`` is a string property of that name, which selectors choose by; "" sends
    none. ``group`` is JMSXGroupID. A negative ``delay_ms`` is nonsense that a broker must refuse or take for none.
    ``life_ms`` is a time to live by the broker's clock, instead of ``ttl_ms``. ``deliver_in_ms`` is an absolute
    delivery time, so long after the reading of the *producer's* clock (JMS only; a delay goes before it). ``forged`` is
    a delivery count that headers pretend (STOMP only). ``network``: the producer is a network bridge (JMS only).
    ``preset_in_ms``: the application has set a delivery time on the message itself, so long after its clock, which
    means nothing (JMS only). ``endless``: the expiration is the last instant of the calendar (2^63 - 1 ms) instead of
    ``ttl_ms``. ``reply``: it asks for answers on the host's temporary queue. ``headers`` are a
    correlation id, a type and properties that nothing but the application reads. ``calls``: the façade of JMS, and the
    order in which a producer of its own is told the life and the delay, and sends (JMS 2.0, outside of transactions;
    live by a provider's Java library). ``again`` (JMS, persistent, outside a
    transaction, over a link that flows): before the answer is there the host's socket is dead, which only the host
    knows; its library comes back under its own name and sends the same again (simulated world only).
    """

    ttl_ms: SignedDuration = 0
    delay_ms: SignedDuration = 0
    persistent: bool = True
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] = 4
    size: Annotated[int, msgspec.Meta(ge=0, le=16 * 1024 * 1024)] = 64
    stamp: Literal["client", "none", "zero"] = "client"
    kind: Word = ""
    group: Word = ""
    life_ms: Duration = 0
    deliver_in_ms: SignedDuration = 0
    forged: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    reply: bool = False
    network: bool = False
    endless: bool = False
    preset_in_ms: SignedDuration = 0
    again: bool = False
    calls: Calls = ""
    headers: Headers = {}


class Send(MessageOptions, ClientOperation, frozen=True, kw_only=True, tag="send"):
    """Send one message, as part of the transaction ``tx``."""

    host: str = ""
    dest: str
    message: str
    #: At least; a body that holds the message's name may be longer.
    size: int = 0
    tx: str = ""


class ConsumerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for a consumer. ``dispatch`` sync is not selectable over STOMP on real ActiveMQ brokers (*not
    applicable* there).

    ``selector`` is JMS's ("" is none). ``durable`` names a durable subscription of the host, on a topic. ``browser``
    looks at a queue and takes nothing; unless its ``ack`` is ``individual`` it acknowledges what it has seen.
    ``exclusive`` asks to be a queue's only consumer, ``priority`` is the consumer's. ``no_local`` refuses what the same
    connection sent.
    """

    dispatch: Literal["async", "sync"] = "async"
    ack: AckMode = "client"
    selector: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    durable: Word = ""
    browser: bool = False
    exclusive: bool = False
    no_local: bool = False
    priority: Annotated[int, msgspec.Meta(ge=-128, le=127)] = 0


class Subscribe(ConsumerOptions, ClientOperation, frozen=True, kw_only=True, tag="subscribe"):
    """Attach a consumer under a name that was never used before. ``dest`` may be a wildcard. A ``prefetch`` of null
    asks for nothing: the library's own default, if it has one, is what the broker hears.
    """

    host: str = ""
    dest: str
    consumer: str
    prefetch: int | None = 1000


class Unsubscribe(ClientOperation, frozen=True, kw_only=True, tag="unsubscribe"):
    """End a durable subscription of this host that no consumer uses."""

    host: str = ""
    durable: str


class Take(ClientOperation, frozen=True, kw_only=True, tag="take"):
    """Give the application one message, if one comes within the deadline. A consumer without a prefetch asks for it."""

    host: str = ""
    consumer: str
    deadline_ms: int = 0


class Ack(ClientOperation, frozen=True, kw_only=True, tag="ack"):
    """Settle these messages, oldest first, as part of ``tx``."""

    host: str = ""
    consumer: str
    messages: list[str]
    mode: Literal["cumulative", "individual"] = "cumulative"
    tx: str = ""


class Nack(ClientOperation, frozen=True, kw_only=True, tag="nack"):
    """Reject these messages (STOMP NACK, OpenWire POISON), as part of ``tx``; OpenWire knows it outside of any only."""

    host: str = ""
    consumer: str
    messages: list[str]
    tx: str = ""


class Acknowledge(ClientOperation, frozen=True, kw_only=True, tag="acknowledge"):
    """Send an acknowledgement past the library, from the first of these messages to the last.

    ``open_start`` leaves the first id out; ``wrong_end`` names a last message that does not exist.
    """

    host: str = ""
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

    host: str = ""
    consumer: str | None = None
    how: Literal["close", "drop", "kill"] = "close"


class Begin(ClientOperation, frozen=True, kw_only=True, tag="begin"):
    """Begin a transaction under this name."""

    host: str = ""
    tx: str


class Commit(ClientOperation, frozen=True, kw_only=True, tag="commit"):
    """Commit it."""

    host: str = ""
    tx: str


class Abort(ClientOperation, frozen=True, kw_only=True, tag="abort"):
    """Roll it back."""

    host: str = ""
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


class Freeze(Operation, frozen=True, kw_only=True):
    """A host's wall clock stands still; time goes on."""

    host: str


class Thaw(Operation, frozen=True, kw_only=True):
    """It shows again what it would show if it had never stood still."""

    host: str


class Exhaust(Operation, frozen=True, kw_only=True):
    """The first broker's process has only ``left`` of something from now on: descriptors that it may open, percent of
    a processor, KiB beyond its largest file, MiB of memory.
    """

    what: Scarce
    left: int


class Relieve(Operation, frozen=True, kw_only=True):
    """It has enough again."""

    what: Scarce


class Reset(Operation, frozen=True, kw_only=True):
    """The network ends a client's connection; what was on its way is lost. With ``after_bytes`` it does so as soon as
    so many bytes more have passed ``toward`` one end, on this connection only.
    """

    link: str
    toward: str = ""
    after_bytes: int = 0


class Restart(Operation, frozen=True, kw_only=True):
    """A broker (``host``; "" is the first) is stopped or killed and comes back with what it had stored."""

    how: Literal["stop", "kill"]
    host: str = ""


class Cut(Operation, frozen=True, kw_only=True):
    """A bridge loses its connection to the far broker (``cut``), or its process ends (``kill``); it comes back."""

    bridge: str
    how: Literal["cut", "kill"]


class Rejoin(Operation, frozen=True, kw_only=True):
    """A bridge that is not open connects at once instead of waiting."""

    bridge: str


class Pause(Operation, frozen=True, kw_only=True):
    """The broker's process stands still."""

    ms: int


class Operate(Operation, frozen=True, kw_only=True):
    """An operator's request: ``purge`` a queue, ``move`` what waits there ``to`` another, ``reset`` its totals, set the
    memory ``limit`` of a queue or ("") of the broker, give a queue manager an ``mqsc`` ``command``.
    """

    op: Literal["purge", "move", "reset", "limit", "mqsc"]
    dest: str = ""
    to: str = ""
    limit_bytes: int = 0
    command: str = ""


class ProbeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A raw peer with a bare socket says ``hello``, then every ``every_ms`` for ``talk_ms`` what ``says`` says, then
    nothing, until ``ms`` have passed or the broker hangs up. Nothing else happens meanwhile.

    ``hello``: as it should be, nothing, half of it, something ``early`` instead of it, or one that must be refused
    (``fault`` chooses). ``offer_ms``: STOMP's heart-beat header, or OpenWire's maxInactivityDuration and initial delay.
    ``says``: keep-alives; ``asks``, which want an answer; ``frames``, which want none; ``part`` of one that is never
    finished. ``deaf`` (STOMP): it sends itself many messages and reads none. ``times`` of them do so at once; the first
    one is looked at. ``dialogues``: instead of all that it holds these, one after another, in ``version`` of STOMP.
    """

    via: Literal["stomp", "openwire"] = "stomp"
    hello: Literal["good", "none", "half", "early", "bad"] = "good"
    fault: Annotated[int, msgspec.Meta(ge=0)] = 0
    offer_ms: tuple[Period, Period] = (0, 0)
    says: Literal["nothing", "beats", "asks", "frames", "part"] = "nothing"
    every_ms: Annotated[int, msgspec.Meta(ge=1, le=MS_MAX)] = 100
    talk_ms: Duration = 0
    deaf: bool = False
    ms: Duration = 1000
    times: Annotated[int, msgspec.Meta(ge=1, le=2000)] = 1
    version: Literal["1.2", "1.1", "1.0"] = "1.2"
    dialogues: tuple[str, ...] = ()


class Probe(ProbeOptions, Operation, frozen=True, kw_only=True):
    """Raw peers come and go."""


class ReadCounters(Operation, frozen=True, kw_only=True, tag="counters"):
    """Read the broker's figures of a destination, or (null) of the broker; ``broker``: which one, "" is the first."""

    dest: str | None = None
    at_rest: bool = False
    broker: str = ""


class Advance(Operation, frozen=True, kw_only=True):
    """True time passes."""

    ms: int


class Settle(Operation, frozen=True, kw_only=True):
    """Wait until nothing moves, at most so long, then read all counters."""

    deadline_ms: int


def shared(source: msgspec.Struct, target: type[msgspec.Struct], *but: str) -> dict[str, Any]:
    """The values of all fields that two kinds of data have in common, except ``but``."""
    names, values = _common(type(source), target, but)
    return dict(zip(names, values(source), strict=True))


@cache
def _common(
    source: type[msgspec.Struct], target: type[msgspec.Struct], but: tuple[str, ...]
) -> tuple[list[str], Callable[[msgspec.Struct], tuple[Any, ...]]]:
    names = [name for name in source.__struct_fields__ if name in target.__struct_fields__ and name not in but]
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda one: tuple(getattr(one, name) for name in names)
