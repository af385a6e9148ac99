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
* After ``deadline_ms`` the answer is ``unknown``. An unknown ``send`` still tells in ``stamps`` what the client put on
  the message, because it may arrive; a refused one may, and if it does it is known whether the message was expired.
* A request is an operation (``experiment/operations.py``) with an id and, where it needs the broker, ``deadline_ms``.
  ``dest`` is the name that the broker knows; ``counters`` may answer ``{}``.
* ``message`` is an opaque token without white space (``message.py``).
* ``take`` is offered by agents whose library decides what the application gets (JMS). For all others the live world
  itself hands out what has arrived.
* Unknown fields are refused: a misspelt field must not silently be a default.
* A host has at most one open transaction, named by the suite. ``send``, ``ack`` and ``nack`` name it in ``tx``.
* What a browser (``subscribe`` with ``browser``) is shown is told by ``browse`` events, never by ``arrive``.
* What needs a capability (``FEATURES``) is asked of an agent only if it offers that.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from brokerproof.conformance.agents.library import Stamps
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.operations import Operation

#: Version of this protocol, answered to ``hello``.
PROTOCOL = 1
REQUIRED = ("hello", "connect", "send", "subscribe", "ack", "leave", "counters", "quit")
#: How long the broker's answer to a request may take, if it does not say.
BROKER_MS = 10_000
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
UNSUPPORTED, NOT_CONNECTED = ops.UNSUPPORTED, ops.NOT_CONNECTED


class AgentError(SuiteProblem):
    """An agent broke the protocol, died by itself or does not answer: the suite's failure, never the broker's."""

    def __init__(self, agent: str, text: str) -> None:
        super().__init__(f"agent {agent}: {text}")
        self.agent = agent


class Hello(Operation, kw_only=True, frozen=True, tag="hello"):
    """Who are you? May be asked again at any time; it is also how the host's clock is read."""


class Quit(Operation, kw_only=True, frozen=True, tag="quit"):
    """Disconnect, answer, end."""


AnyOperation = (
    Hello
    | ops.Connect
    | ops.Send
    | ops.Subscribe
    | ops.Take
    | ops.Ack
    | ops.Nack
    | ops.Acknowledge
    | ops.Begin
    | ops.Commit
    | ops.Abort
    | ops.Unsubscribe
    | ops.Leave
    | ops.ReadCounters
    | Quit
)
#: Operations that need no answer of the broker, and so no deadline for it.
ALONE = (Hello, ops.ReadCounters, Quit, ops.Take, ops.Leave)


class Request:
    """An operation under the number of the request; its answer may take ``deadline_ms``, if it needs the broker."""

    __slots__ = ("deadline_ms", "id", "operation")

    def __init__(self, number: int, operation: AnyOperation, deadline_ms: int = BROKER_MS) -> None:
        self.id = number
        self.operation = operation
        self.deadline_ms = deadline_ms

    def fields(self) -> dict[str, Any]:
        """As it is written."""
        fields = {"id": self.id, **msgspec.to_builtins(self.operation)}
        fields.pop("host", None)
        if not isinstance(self.operation, ALONE):
            fields["deadline_ms"] = self.deadline_ms
        return fields


class Fail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a request was refused: a stable word and a sentence."""

    code: str
    text: str


def refused_by_broker(code: str, text: str) -> Fail:
    """A refusal with the broker's own ``code``, "" without one; ``unsupported`` is an agent's that did not ask it."""
    return Fail("refused" if code in {"", UNSUPPORTED} else code, text)


class Called(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What became of the ``calls`` of a ``send``: each, milliseconds, and what it threw (``JMSException: …``) or "".
    ``ttl_ms`` and ``delay_ms`` are what its producer said that they are, right before the send.
    """

    calls: list[tuple[str, int, str]] = []
    ttl_ms: int = 0
    delay_ms: int = 0


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The answer to a request; exactly one of ``ok``, ``fail``, ``unknown``.

    ``stamps`` goes with an unknown or refused ``send``, ``called`` with any that was asked for ``calls``.
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
    called: Called | None = None


class AgentEvent(msgspec.Struct, tag_field="event", kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Common to all events."""

    t0: int
    t1: int


class Arrive(AgentEvent, tag="arrive", kw_only=True):
    """A message reached this host. ``message`` is empty for one that the suite did not write.

    ``dest`` is told where the consumer's own says too little (a wildcard). ``redelivered`` is null where this broker
    marks nothing that it delivers again.
    """

    consumer: str
    message: str
    redelivered: bool | None = False
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
    #: When it was to be delivered, as its receiver reads it.
    delivery_time_ms: int | None = None
    #: What is left of its time to live by the broker's clock, as the message says; null: it says nothing.
    left_ms: int | None = None
    #: Whether it is persistent; the names of its properties, sorted.
    persistent: bool | None = None
    properties: list[str] = []
    #: Correlation id, type, and properties that may be the suite's (``operations.Headers``), null: nobody looked.
    headers: dict[str, bool | int | float | str] | None = None
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


class Partial(AgentEvent, tag="partial", kw_only=True):
    """Bytes came, and no frame is whole yet; need not be told each time, and is told by agents that read a socket."""


AnyAgentEvent = Arrive | Browse | Discard | Closed | Partial

_Timed = TypeVar("_Timed", Reply, AnyAgentEvent)

_encoder = msgspec.json.Encoder()
_ALONE = frozenset(str(kind.__struct_config__.tag) for kind in ALONE)
#: Replies carry a number, events a word; they are told apart before they are checked, and so are a request's two parts.
_outer_decoder = msgspec.json.Decoder(dict[str, Any])


def encode(message: Request | Reply | AgentEvent) -> bytes:
    """One line, its end included."""
    return _encoder.encode(message.fields() if isinstance(message, Request) else message) + b"\n"


def parse_request(line: bytes) -> Request:
    """For agents. Raises ``ValueError`` that shows the line and what was expected."""
    try:
        fields = _outer_decoder.decode(line)
        number = msgspec.convert(fields.pop("id", None), int)
        deadline_ms = BROKER_MS
        if fields.get("do") not in _ALONE:
            deadline_ms = msgspec.convert(fields.pop("deadline_ms", BROKER_MS), int)
        operation: AnyOperation = msgspec.convert(fields, AnyOperation)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a request of protocol {PROTOCOL}: {error}; it reads {_shown(line)}") from None
    return Request(number, operation, deadline_ms)


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


def jms_options(request: ops.Connect) -> dict[str, str]:
    """What a request to connect asks of a JMS library, by the names of ActiveMQ's URI options."""
    options = {"jms.consumerExpiryCheckEnabled": "true" if request.expiry_check else "false"}
    if request.client_id:
        options["jms.clientID"] = request.client_id
    for option, text in (("jms.userName", request.login), ("jms.password", request.passcode)):
        if text:
            options[option] = quote(text, safe="")
    if request.monitor_ms is not None:
        read_ms, initial_delay_ms = request.monitor_ms
        options["wireFormat.maxInactivityDuration"] = str(read_ms)
        if read_ms:
            # Spelt like this in the library.
            options["wireFormat.maxInactivityDurationInitalDelay"] = str(initial_delay_ms)
    return options


def jms_url(request: ops.Connect, options: dict[str, str]) -> str:
    """The broker's address with options."""
    return request.url + "?" + "&".join(f"{name}={value}" for name, value in options.items())


def _shown(line: bytes, limit: int = 200) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= limit else text[:limit] + "…")
