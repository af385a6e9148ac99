"""History: what outside observers saw of one run, as ``brokerproof/history/2`` (contracts.md section 2,
docs/history.md).

Rules
* One JSON object per line. The first is the ``Header``, the rest are events, ordered by ``t1``.
* ``t0`` and ``t1`` are true nanoseconds since the start of the run, on the observer's monotonic clock; the thing
  happened somewhere in ``[t0, t1]``.
* Results are ``ok``, ``fail`` or ``unknown``; unknown means that it may or may not have happened, at any time from
  ``t0`` on.
* A message is named by the suite (``host/number``), in its body; never by the broker's own id.
* Wall time exists only through ``clock_sample`` events. A counter that the broker does not have is absent, never 0.

The classes below are the format: reading (``history_file.py``), writing and the JSON Schema are all derived from them,
so they cannot drift. Fields may be added with a default; renaming or removing one needs another version.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from brokerproof.conformance.experiment.configuration import DeclaredSpec
from brokerproof.conformance.experiment.destinations import Destination
from brokerproof.conformance.experiment.peers import Heard, Said
from brokerproof.conformance.experiment.schemas import schema_of
from brokerproof.conformance.experiment.traits import Traits

FORMAT = "brokerproof/history/2"

Result = Literal["ok", "fail", "unknown"]
#: A value of a header or property.
HeaderValue = bool | int | float | str


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line: what ran. ``declared``: what the tester says of the broker, as in a program's ``broker``.

    ``destinations``: those of the program, and temporary queues that it does not name; any other is a queue, unless its
    name is one that brokers give.
    """

    format: str
    broker: str
    world: str = "external"
    program: str | None = None
    seed: int | None = None
    mutant: str | None = None
    #: Name of the host on which the broker runs, as its clock samples and counters name it; of several, the first.
    broker_host: str = "b"
    capabilities: list[str] = []
    declared: DeclaredSpec = DeclaredSpec()
    destinations: list[Destination] = []
    #: A network of brokers: host -> the broker that it uses, of all hosts that do not use the first one. Each broker is
    #: a host of its own and stands here, too; a bridge is two clients, one of each broker, NAME and NAME-far.
    at: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    #: As whom hosts log in: host -> user, of all that do.
    users: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    #: Accelerated time: host -> how many times as fast as the machine it lived. All instants are the program's, so
    #: whatever a machine needs takes as many times as long.
    rates: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


class Event(msgspec.Struct, tag_field="kind", omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Common fields of every event. ``host`` is the host at which it was seen; "" is the observer itself."""

    seq: int
    t0: int
    t1: int
    host: str


class ClockSample(Event, tag="clock_sample"):
    """The host's wall clock read ``wall_ms`` at the middle of ``[t0, t1]``, give or take ``plus_minus_ns`` (truncation
    to milliseconds included). ``beyond_ns`` are the nanoseconds past ``wall_ms``, from an observer that can read them;
    then truncation is no part of ``plus_minus_ns``.
    """

    wall_ms: int
    plus_minus_ns: int = 0
    beyond_ns: int = 0


class Connect(Event, tag="connect"):
    """A client connected, via a library that does what its ``traits`` say, to a broker that says of heart-beats (STOMP)
    that it sends and wants ``heart_beat_ms``; null: not told.
    """

    result: Result
    via: str = "stomp"
    traits: Traits | None = None
    refusal: str | None = None
    heart_beat_ms: tuple[int, int] | None = None


class Subscribe(Event, tag="subscribe"):
    """A consumer attached. ``ack`` is ``auto``, ``client`` (cumulative) or ``individual``.

    ``dest`` ``q*`` or ``t*`` is a wildcard over all queues or topics of the program. ``prefetch`` 0 is a pull consumer.
    ``durable`` is the name of a durable subscription of this host. What a ``browser`` is shown comes as ``browse``,
    never as ``arrive``. ``priority`` is the consumer's.
    """

    result: Result
    consumer: str
    dest: str
    prefetch: int
    dispatch: Literal["async", "sync"] = "async"
    ack: Literal["auto", "client", "individual"] = "client"
    refusal: str | None = None
    selector: str = ""
    durable: str = ""
    browser: bool = False
    exclusive: bool = False
    no_local: bool = False
    priority: int = 0
    asked: int | None = None  # the prefetch that was asked for (-1: none), where ``prefetch`` is another's word


class Unsubscribe(Event, tag="unsubscribe"):
    """A durable subscription of this host was ended; nobody used it."""

    result: Result
    durable: str
    refusal: str | None = None


class Leave(Event, tag="leave"):
    """A consumer left: ``close`` (said goodbye), ``drop`` (its host's socket vanished), ``kill`` (its host's process
    died). ``consumer`` null: all of the host's.
    """

    result: Result
    how: Literal["close", "drop", "kill"]
    consumer: str | None = None


class Send(Event, tag="send"):
    """A producer sent; the stamps are those that the *client* put on the message. ``timestamp_ms`` null: none was sent,
    so the broker's clock stamps it.
    """

    result: Result
    message: str
    dest: str
    expiration_ms: int = 0
    timestamp_ms: int | None = None
    delay_ms: int = 0
    deliver_at_ms: int | None = None
    persistent: bool = True
    priority: int = 4
    size: int = 0
    tx: str | None = None
    refusal: str | None = None
    #: The string property ``kind``, and JMSXGroupID; "" was not sent. (An event's own ``kind`` is another thing.)
    message_kind: str = ""
    group: str = ""
    life_ms: int = 0  # time to live by the broker's clock; 0 is none, and then ``expiration_ms`` counts
    #: The time to live that the application asked for; null: not told.
    ttl_ms: int | None = None
    body: int | None = None  # CRC-32
    forged: int = 0  # the delivery count that headers of a STOMP SEND pretended
    network: bool = False  # a network bridge sent it
    delivery_time_ms: int | None = None  # as its sender could read it after the send
    preset_ms: int | None = None  # as its application had set it on the message before
    again: bool = False  # once more, over another connection: nobody knows which of both the broker took it from
    #: The façade of JMS whose producer was asked, and its calls: which, milliseconds, and "" or what it threw.
    facade: str = ""
    called: list[tuple[str, int, str]] = []
    #: ``correlation-id``, ``type``, ``reply-to`` ("temporary") and the application's properties.
    headers: dict[str, HeaderValue] = {}

    def mortal(self) -> bool:
        """Whether its producer wanted it to die."""
        return self.expiration_ms > 0 or self.life_ms > 0

    def timed(self) -> bool:
        """Whether its producer wanted it to die, or to wait."""
        return self.expiration_ms != 0 or self.life_ms > 0 or self.delay_ms != 0 or self.deliver_at_ms is not None


class Arrive(Event, tag="arrive"):
    """The frame with this message reached the client's host. ``message_kind``, ``group`` and ``priority`` as the
    consumer saw them, null where nobody looked. ``redelivered``: null where the broker's protocol, or its profile, has
    no such mark.
    """

    consumer: str
    message: str
    dest: str
    redelivered: bool | None = False
    delivery_count: int | None = None
    expiration_ms: int = 0
    timestamp_ms: int = 0
    original_dest: str | None = None
    message_kind: str | None = None
    group: str | None = None
    priority: int | None = None
    body: int | None = None  # CRC-32
    #: Of a dead letter: the properties ``originalExpiration`` and ``dlqDeliveryFailureCause``.
    original_expiration_ms: int | None = None
    cause: str | None = None
    original_id: str | None = None  # of an advisory: the broker's id of its message; two are compared, none is read
    delivery_time_ms: int | None = None
    left_ms: int | None = None  # what is left of its time to live, as the message says
    #: Whether it is persistent, null where nobody looked; the names of its properties, as far as anybody did.
    persistent: bool | None = None
    properties: list[str] = []
    #: As of ``send``, of what the suite sends; null where nobody looked. A protocol without types shows texts.
    headers: dict[str, HeaderValue] | None = None


class Consume(Event, tag="consume"):
    """The application was given the message."""

    consumer: str
    message: str


class Poll(Event, tag="poll"):
    """A consumer without a prefetch asked, and got this message or none; ``answered``: the broker owes no answer.
    ``timeout_ms``: how long the broker might wait for a message; null: not told.
    """

    consumer: str
    message: str | None = None
    answered: bool = False
    timeout_ms: int | None = None


class Discard(Event, tag="discard"):
    """The client library threw the message away before the application saw it (the JMS expiry check)."""

    consumer: str
    message: str
    reason: str


class Ack(Event, tag="ack"):
    """The consumer settled these messages. ``mode``: ``cumulative``, ``individual`` or ``auto`` (the library or broker
    did it on delivery).
    """

    result: Result
    consumer: str
    messages: list[str]
    mode: Literal["cumulative", "individual", "auto"] = "cumulative"
    tx: str | None = None
    refusal: str | None = None


class Nack(Event, tag="nack"):
    """The consumer rejected these messages (STOMP NACK, OpenWire POISON)."""

    result: Result
    consumer: str
    messages: list[str]
    tx: str | None = None
    refusal: str | None = None


class Acknowledge(Event, tag="acknowledge"):
    """An acknowledgement past the library: ``open_start`` names no first message, ``wrong_end`` no real last one."""

    result: Result
    consumer: str
    type: Literal["delivered", "poison", "standard", "redelivered", "individual", "unmatched", "expired"]
    messages: list[str]
    open_start: bool = False
    wrong_end: bool = False
    refusal: str | None = None


class Begin(Event, tag="begin"):
    """A local transaction of this host began. Until it ends, the host's ``send``, ``ack`` and ``nack`` name it in
    ``tx`` if they are part of it. It is rolled back when the host's connection ends.
    """

    result: Result
    tx: str
    refusal: str | None = None


class Commit(Event, tag="commit"):
    """A local transaction was committed."""

    result: Result
    tx: str
    refusal: str | None = None


class Abort(Event, tag="abort"):
    """A local transaction was rolled back."""

    result: Result
    tx: str
    refusal: str | None = None


class Browse(Event, tag="browse"):
    """A browser saw these messages, in this order; one event per message or one for many, as the observer can tell.
    ``complete``: the browser was told that this was all.
    """

    dest: str
    messages: list[str]
    consumer: str = ""
    complete: bool = False


class Operate(Event, tag="operate"):
    """An operator's request: ``purge`` a queue, ``move`` what waits on it to ``to``, ``reset`` its totals, set the
    memory ``limit`` of a queue or (no ``dest``) of the broker, ``mqsc``: a ``command`` to a queue manager, and what
    that has ``shown``. ``count``: how many messages it concerned, as the broker says.
    """

    result: Result
    op: Literal["purge", "move", "reset", "limit", "mqsc"]
    dest: str
    to: str = ""
    count: int | None = None
    refusal: str | None = None
    limit_bytes: int | None = None
    command: str | None = None
    shown: list[str] = []


class Counters(Event, tag="counters"):
    """The broker's own figures for one destination (``dest`` null: the broker). ``at_rest``: nothing was moving and no
    fault was active when they were read. Of a broker that counts nothing only that it was at rest.
    """

    dest: str | None = None
    at_rest: bool = False
    size: int | None = None
    in_flight: int | None = None
    enqueued: int | None = None
    dequeued: int | None = None
    dispatched: int | None = None
    expired: int | None = None
    scheduled: int | None = None
    #: Dispatches that were acknowledged, and that came to nothing because their consumer left.
    acknowledged: int | None = None
    wasted: int | None = None
    consumers: int | None = None
    memory_percent: int | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    #: The broker's only: how many destinations there are.
    destinations: int | None = None


#: Why a connection has ended that neither end closed.
NETWORK_ENDED: Final = "reset by the network"
#: Of one whose end the client read in order, behind everything that the broker had said; and behind a relay, which may
#: have lost something of that.
READ_TO_THE_END: Final = "the broker closed the connection"
RELAYED_END: Final = "the connection was closed behind a relay"
#: How the reason of an end begins for which the broker is to blame; what was wrong follows.
PROTOCOL_BROKEN: Final = "the broker broke the protocol: "


class Closed(Event, tag="closed"):
    """A connection ended, as seen at this host's end of the socket. ``who`` closed it; ``idle_ns``: how long this host
    had received nothing, where known.
    """

    who: Literal["client", "broker", "unknown"]
    reason: str = ""
    link: str | None = None
    idle_ns: int | None = None


class Probe(Event, tag="probe"):
    """What a raw peer (the ``host``) with a bare socket said and heard, from ``t0`` (it began to connect) to ``t1``."""

    said: Said
    heard: Heard


class Start(Event, tag="start"):
    """A process was started."""

    target: str


class Stop(Event, tag="stop"):
    """A process was stopped in an orderly way."""

    target: str


class Kill(Event, tag="kill"):
    """A process was killed."""

    target: str


class Crash(Event, tag="crash"):
    """A process ended, and nobody had asked it to: that of the ``target``, the broker's host or a client's.

    ``how``: it ``raised`` or ``exited`` by itself, or it ``hung``: it did nothing any more, or went on with one thing
    without end, and the observer killed it. ``evidence``: what it left behind (a traceback, its exit code, its log).
    """

    target: str
    how: Literal["raised", "exited", "hung"]
    evidence: str = ""


class Pause(Event, tag="pause"):
    """A process was suspended from ``t0`` to ``t1``, or from then on; ``asked_ms`` is for how long it was meant to.

    ``evidence``: nobody had asked for it. The process, an agent, did not answer in time, last heard of at ``t0``; what
    it did from then on is not known, and accuses nobody.
    """

    target: str
    asked_ms: int | None = None
    evidence: dict[str, int] | None = None


class Fault(Event, tag="fault"):
    """A fault took effect (or was lifted). ``evidence`` comes from another channel than the request; null makes
    verdicts that depend on it *not run*.

    ``fault``: ``stall`` and ``resume`` (link, toward), ``reset`` (link: the network ended the connection; with
    ``toward`` and ``after_bytes`` when so many bytes had passed since ``limit`` of the same), ``jitter`` and
    ``slice`` (link: at the end, what was seen of what lasted), ``clock`` (target, jump_ms; ``how`` ``freeze``: from
    now on it stands still, ``thaw``: it goes on, jump_ms further), ``exhaust`` and ``relieve`` (target, a broker;
    ``how``: its process has too little of ``descriptors``, a ``processor``, ``disk`` or ``memory``, and enough),
    ``restart`` (target; ``how``: ``stop`` or ``kill``), ``cut`` (target: a bridge; ``how``: ``cut`` or ``kill``).
    """

    fault: str
    link: str | None = None
    toward: str | None = None
    target: str | None = None
    jump_ms: int | None = None
    how: str | None = None
    after_bytes: int | None = None
    evidence: dict[str, int] | None = None


class Phase(Event, tag="phase"):
    """The run entered ``work``, ``heal``, ``drain`` or ``end``. Liveness is judged after ``heal`` only."""

    name: Literal["work", "heal", "drain", "end"]


class Skipped(Event, tag="skipped"):
    """A step that was impossible in this state and changed nothing."""

    step: dict[str, Any]


# fmt: off
AnyEvent = (
    ClockSample | Connect | Subscribe | Unsubscribe | Leave | Send | Arrive | Consume | Discard | Ack | Nack
    | Begin | Commit | Abort | Browse | Operate | Counters | Closed | Start | Stop | Kill | Pause | Fault
    | Phase | Skipped | Probe | Acknowledge | Poll | Crash
)
# fmt: on

_encoder = msgspec.json.Encoder()


class History:
    """One run: the header and its events, in order."""

    __slots__ = ("events", "header")

    def __init__(self, header: Header, events: list[Event] | None = None) -> None:
        self.header = header
        self.events: list[Event] = events if events is not None else []

    def encode(self) -> bytes:
        """The whole history as JSON lines; the same run gives the same bytes."""
        buffer = bytearray(_encoder.encode(self.header))
        buffer += b"\n"
        buffer += _encoder_lines(self.events)
        return bytes(buffer)

    def write(self, path: Path) -> None:
        """Write it to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.encode())


def _encoder_lines(events: Iterable[Event]) -> bytes:
    return b"".join(_encoder.encode(event) + b"\n" for event in events)


def json_schemas() -> dict[str, Any]:
    """JSON Schema of a header line and of an event line, keyed ``header`` and ``event``; written to
    docs/history.schema.json.
    """
    return {"header": schema_of(Header), "event": schema_of(AnyEvent)}
