"""The agent protocol: what a host's process is asked and what it answers, as JSON lines (docs/agents.md).

It decides the messages; who performs them is an agent's business, who records them the live world's.

Rules
* A request carries an id and gets exactly one reply with that id: ``ok``, ``fail`` (the broker or the library refused,
  nothing happened) or ``unknown`` (it may or may not have happened). Events come unasked.
* ``t0`` and ``t1`` are nanoseconds of the machine's monotonic clock, between which the thing happened. ``wall_ms`` is
  the host's wall clock; it showed that value at some instant of ``wall_at``, or of ``[t0, t1]`` when the agent does not
  say.
* ``hello connect send subscribe ack leave counters quit`` are required; the rest is offered as a capability. An agent
  refuses what it does not know with the code ``unsupported``.
* A request that needs the broker carries ``deadline_ms``; after it the answer is ``unknown``. An unknown ``send`` still
  tells in ``stamps`` what the client put on the message, because it may arrive.
* ``message`` is an opaque token without white space. It is the first line of the body, then come as many dots as
  ``size`` asks for.
* ``take`` is offered by agents whose library decides what the application gets (JMS). For all others the live world
  itself hands out what has arrived.
* Unknown fields are refused: a misspelt field must not silently be a default.

* A host has at most one open transaction, named by the suite. ``send``, ``ack`` and ``nack`` name it in ``tx``.
* What a browser (``subscribe`` with ``browser``) is shown is told by ``browse`` events, never by ``arrive``.
* What needs a capability (``FEATURES``) is asked of an agent only if it offers that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.steps.protocol import AckType

#: Version of this protocol, answered to ``hello``.
PROTOCOL = 1
REQUIRED = ("hello", "connect", "send", "subscribe", "ack", "leave", "counters", "quit")
#: The property by which an advisory names a message; the spelling is ActiveMQ's.
ORIGINAL_ID = "orignalMessageId"
#: Capabilities that all three of our agents offer, by the words of ``hello``; some offer more (docs/agents.md).
FEATURES = (
    "browsers",
    "default-prefetch",
    "durables",
    "exclusive",
    "groups",
    "lifetimes",
    "selectors",
    "transactions",
    "wildcards",
)
#: The last instant of the calendar of clients and brokers: milliseconds since 1970.
LAST_MS = 2**63 - 1
#: The property that says how long a message lives by the broker's clock, for brokers that know it (docs/agents.md).
LIFE = "brokerproof_ttl_ms"
#: What a client calls its temporary queue, which is made on its connection when it is first named; others know it by
#: the name that ``reply_to`` tells. The spelling is STOMP's.
OWN_TEMPORARY = "/temp-queue/own"
#: The code with which an agent refuses a request that it does not know.
UNSUPPORTED = "unsupported"
#: What a message was stamped with: ``expiration_ms`` and ``timestamp_ms``.
Stamps = dict[str, int | None]


class AgentError(SuiteProblem):
    """An agent broke the protocol, died by itself or does not answer: the suite's failure, never the broker's."""

    def __init__(self, agent: str, text: str) -> None:
        super().__init__(f"agent {agent}: {text}")
        self.agent = agent


class Request(msgspec.Struct, tag_field="do", kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Common to all requests."""

    id: int


class BrokerRequest(Request, kw_only=True):
    """Common to requests that need the broker."""

    #: How long its answer may take before it is unknown.
    deadline_ms: int = 10_000


class Hello(Request, tag="hello", kw_only=True):
    """Who are you? May be asked again at any time; it is also how the host's clock is read."""


class Connect(BrokerRequest, tag="connect", kw_only=True):
    """Connect to the broker.

    ``heartbeat_ms``: STOMP's (what the client sends, what it wants). ``monitor_ms``: OpenWire's (read period, initial
    delay); null: the library's default. ``expiry_check`` False is JMS ``consumerExpiryCheckEnabled=false``.
    """

    url: str
    heartbeat_ms: tuple[int, int] = (0, 0)
    monitor_ms: tuple[int, int] | None = None
    expiry_check: bool = True
    client_id: str = ""


class Send(BrokerRequest, tag="send", kw_only=True):
    """Send one message;

    ``stamp``: the client's clock, none (the broker stamps) or zero. ``kind`` is a string property of that name,
    ``life_ms`` the property ``LIFE``: a time to live by the broker's clock. ``forged``: headers pretend that delivery
    count. ``endless``: the expiration is ``LAST_MS`` instead of what follows from ``ttl_ms``. ``network``: the message
    says that it came over a bridge between brokers. ``reply``: it asks for answers on ``OWN_TEMPORARY``. Answers what
    the client stamped, and ``body``, the CRC-32 of the body.
    """

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
    forged: int = 0
    tx: str = ""
    endless: bool = False
    network: bool = False
    reply: bool = False


class Subscribe(BrokerRequest, tag="subscribe", kw_only=True):
    """Attach a consumer under a name that was never used before on this agent.

    ``dest`` may be a wildcard. ``durable`` names a subscription under the ``client_id`` of ``connect``. A
    ``prefetch`` of null asks for nothing: the library's own default, if it has one, is what the broker hears.
    """

    dest: str
    consumer: str
    prefetch: int | None = 1000
    dispatch: Literal["async", "sync"] = "async"
    ack: Literal["auto", "client", "individual"] = "client"
    selector: str = ""
    durable: str = ""
    browser: bool = False
    exclusive: bool = False
    no_local: bool = False
    priority: int = 0


class Take(Request, tag="take", kw_only=True):
    """Give the application one message, if one comes within the deadline.

    Answers ``{"message": …}`` or ``{"message": null}``; of a consumer without a prefetch also ``answered``, if the
    agent knows: the broker owes it no answer.
    """

    consumer: str
    deadline_ms: int = 0


class Ack(BrokerRequest, tag="ack", kw_only=True):
    """Settle these messages, oldest first.

    An agent that can only settle more answers ``{"messages": [...]}`` with what it really settled.
    """

    consumer: str
    messages: list[str]
    mode: Literal["cumulative", "individual"] = "cumulative"
    tx: str = ""


class Nack(BrokerRequest, tag="nack", kw_only=True):
    """Reject these messages."""

    consumer: str
    messages: list[str]


class Acknowledge(BrokerRequest, tag="acknowledge", kw_only=True):
    """Send an acknowledgement past the library, from the first of these messages to the last.

    ``open_start`` leaves the first id out; ``wrong_end`` names a last message that does not exist.
    """

    consumer: str
    messages: list[str]
    type: AckType
    open_start: bool = False
    wrong_end: bool = False


class Begin(BrokerRequest, tag="begin", kw_only=True):
    """Begin a transaction under this name."""

    tx: str


class Commit(BrokerRequest, tag="commit", kw_only=True):
    """Commit it."""

    tx: str


class Abort(BrokerRequest, tag="abort", kw_only=True):
    """Roll it back."""

    tx: str


class Unsubscribe(BrokerRequest, tag="unsubscribe", kw_only=True):
    """End a durable subscription of this client id that no consumer uses."""

    durable: str


class Leave(Request, tag="leave", kw_only=True):
    """A consumer says goodbye; without one the whole connection does (``close``) or its socket vanishes (``drop``)."""

    consumer: str | None = None
    how: Literal["close", "drop"] = "close"


class Counters(Request, tag="counters", kw_only=True):
    """What the broker counts, if this agent can ask it; ``{}`` if not."""

    dest: str | None = None


class Quit(Request, tag="quit", kw_only=True):
    """Disconnect, answer, end."""


AnyRequest = (
    Hello
    | Connect
    | Send
    | Subscribe
    | Take
    | Ack
    | Nack
    | Acknowledge
    | Begin
    | Commit
    | Abort
    | Unsubscribe
    | Leave
    | Counters
    | Quit
)


class Fail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a request was refused: a stable word and a sentence."""

    code: str
    text: str


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The answer to a request; exactly one of ``ok``, ``fail``, ``unknown``.

    ``stamps`` goes with an unknown ``send``.
    """

    id: int
    t0: int
    t1: int
    wall_ms: int
    wall_at: tuple[int, int] | None = None
    ok: dict[str, Any] | None = None
    fail: Fail | None = None
    unknown: str | None = None
    stamps: Stamps | None = None


class AgentEvent(msgspec.Struct, tag_field="event", kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Common to all events."""

    t0: int
    t1: int


class Arrive(AgentEvent, tag="arrive", kw_only=True):
    """A message reached this host. ``message`` is empty for one that the suite did not write.

    ``dest`` is told where the consumer's own says too little (a wildcard).
    """

    consumer: str
    message: str
    redelivered: bool = False
    delivery_count: int | None = None
    expiration_ms: int = 0
    timestamp_ms: int = 0
    original_dest: str | None = None
    dest: str | None = None
    kind: str | None = None
    group: str | None = None
    priority: int | None = None
    #: CRC-32 of the body; and, of a dead letter, two properties.
    body: int | None = None
    original_expiration_ms: int | None = None
    cause: str | None = None
    #: Of an advisory: the broker's id of the message that it is about.
    original_id: str | None = None
    #: Where answers are asked for, if that is a temporary queue: a name that this agent can send to.
    reply_to: str | None = None


class Browse(AgentEvent, tag="browse", kw_only=True):
    """A browser was shown a message; ``complete`` (and no message): it was told that this was all."""

    consumer: str
    message: str = ""
    complete: bool = False


class Discard(AgentEvent, tag="discard", kw_only=True):
    """The library threw a message away before the application saw it."""

    consumer: str
    message: str
    reason: str


class Closed(AgentEvent, tag="closed", kw_only=True):
    """The connection ended otherwise than by ``leave`` or ``quit``."""

    who: Literal["client", "broker", "unknown"]
    reason: str = ""
    idle_ns: int | None = None


AnyAgentEvent = Arrive | Browse | Discard | Closed

_Timed = TypeVar("_Timed", Reply, AnyAgentEvent)

_encoder = msgspec.json.Encoder()
_request_decoder: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
#: Replies carry a number, events a word; both are told apart before they are checked.
_outer_decoder = msgspec.json.Decoder(dict[str, Any])


def encode(message: Request | Reply | AgentEvent) -> bytes:
    """One line, its end included."""
    return _encoder.encode(message) + b"\n"


def parse_request(line: bytes) -> AnyRequest:
    """For agents. Raises ``ValueError`` that shows the line and what was expected."""
    try:
        return _request_decoder.decode(line)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a request of protocol {PROTOCOL}: {error}; it reads {_shown(line)}") from None


def parse_answer(line: bytes, agent: str) -> Reply | AnyAgentEvent:
    """For the suite. Raises ``AgentError``."""
    try:
        fields = _outer_decoder.decode(line)
        if "event" in fields:
            event: AnyAgentEvent = msgspec.convert(fields, AnyAgentEvent)
            return _checked_times(event, agent)
        reply = msgspec.convert(fields, Reply)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise AgentError(agent, f"wrote neither a reply nor an event: {error}; it reads {_shown(line)}") from None
    given = [name for name in ("ok", "fail", "unknown") if getattr(reply, name) is not None]
    if len(given) != 1:
        raise AgentError(
            agent, f"reply {reply.id} has {given or 'none'} of ok, fail, unknown; exactly one is wanted: {_shown(line)}"
        )
    return _checked_times(reply, agent)


def _checked_times(message: _Timed, agent: str) -> _Timed:
    if not 0 <= message.t0 <= message.t1:
        raise AgentError(agent, f"t0={message.t0}, t1={message.t1} is no interval: {message}")
    return message


def make_body(message: str, size: int) -> bytes:
    """The body of a message: its token, an end of line, dots up to ``size`` bytes."""
    head = message.encode() + b"\n"
    return head + b"." * (size - len(head))


def read_body(body: bytes) -> str:
    """The token in a body; empty if the suite did not write it."""
    token, end, rest = body.partition(b"\n")
    if not end or rest.strip(b".") or not token or not token.isascii() or b" " in token:
        return ""
    return token.decode("ascii")


def jms_options(request: Connect) -> dict[str, str]:
    """What a request to connect asks of a JMS library, by the names of ActiveMQ's URI options."""
    options = {"jms.consumerExpiryCheckEnabled": "true" if request.expiry_check else "false"}
    if request.client_id:
        options["jms.clientID"] = request.client_id
    if request.monitor_ms is not None:
        read_ms, initial_delay_ms = request.monitor_ms
        options["wireFormat.maxInactivityDuration"] = str(read_ms)
        if read_ms:
            # Spelt like this in the library.
            options["wireFormat.maxInactivityDurationInitalDelay"] = str(initial_delay_ms)
    return options


def jms_url(request: Connect, options: dict[str, str]) -> str:
    """The broker's address with options."""
    return request.url + "?" + "&".join(f"{name}={value}" for name, value in options.items())


def stomp_stamps(wall_ms: int, ttl_ms: int, stamp: str, *, endless: bool) -> tuple[int, int | None]:
    """What a STOMP client whose clock reads ``wall_ms`` puts on a message: expiration and timestamp; None: none."""
    expiration_ms = LAST_MS if endless else wall_ms + ttl_ms if ttl_ms else 0
    return expiration_ms, {"client": wall_ms, "none": None, "zero": 0}[stamp]


def properties_of(kind: str, life_ms: int, forged: int = 0) -> dict[str, str | bool | int | float] | None:
    """The properties of a message that was asked for with them. ``forged``: STOMP headers pretend that count."""
    properties: dict[str, str | bool | int | float] = {}
    if kind:
        properties["kind"] = kind
    if life_ms:
        properties[LIFE] = life_ms
    if forged:
        properties |= {"JMSXDeliveryCount": str(forged), "JMSRedelivered": "true"}
    return properties or None


def letter_marks(properties: Mapping[str, object]) -> tuple[int | None, str | None]:
    """What a dead letter's properties say: its original expiration, and why it died."""
    return number_in(properties, "originalExpiration"), str(properties.get("dlqDeliveryFailureCause", "")) or None


def number_in(properties: Mapping[str, object], name: str) -> int | None:
    """A property that is a whole number, or the text of one; None if it is not there, or is none."""
    value = properties.get(name)
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _shown(line: bytes, limit: int = 200) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= limit else text[:limit] + "…")
