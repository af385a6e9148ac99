"""The broker's configuration as data: what an operator may set, with ActiveMQ's defaults where ActiveMQ has the option.

Everything that behaves differently per generation (DESIGN section 4) is chosen by ``generation``: area -> name. Unknown
areas and names are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.retention import Recovery

GENERATIONS: dict[str, tuple[str, ...]] = {
    # area: names, default first
    "monitor": ("documented", "classic"),
    "expiry": ("classic-5.14", "documented"),
    "timestamping": ("documented", "classic"),
    "memory": ("fair", "G0", "G1", "G2", "G3"),
    "purge": ("counted", "zeroed"),
    "in-flight": ("exact", "assigned"),
    "delay": ("jms", "ibm-mq"),
}


#: The property that asks for a broker-relative time to live.
RELATIVE_TTL = "brokerproof_ttl_ms"
#: Names that are no properties: the protocols give them a field of their own, with another meaning.
_ABSOLUTE = ("JMSExpiration", "expires")


class ConfigError(ValueError):
    """The operator's configuration is unusable. The text shows the value and what would be accepted."""


class TimeStamping(Struct, eq=False, kw_only=True):
    """TimeStampingBrokerPlugin's properties. 0 or less in a time is off."""

    future_only: bool = False
    ttl_ceiling_ms: int = 0
    zero_expiration_override_ms: int = 0
    process_network_messages: bool = False
    #: Whether what an operator moves is stamped again, so that its life begins anew, as ActiveMQ does.
    restamp_moved: bool = False


SHARED = "shared"
INDIVIDUAL_STRATEGY = "individual"
DISCARDING = "discarding"
STRATEGIES = (SHARED, INDIVIDUAL_STRATEGY, DISCARDING)


class DeadLetterStrategy(Struct, eq=False):
    """A policy entry's deadLetterStrategy, with ActiveMQ's defaults. ``expiration_ms``: time to live of a dead letter,
    0 is for ever. ``dead_letter_queue`` is the name of the shared one.
    """

    strategy: str = SHARED
    process_expired: bool = True
    process_non_persistent: bool = False
    expiration_ms: int = 0
    enable_audit: bool = True
    dead_letter_queue: str = "ActiveMQ.DLQ"
    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    queue_suffix: str = ""
    topic_suffix: str = ""
    use_queue_for_queue_messages: bool = True
    use_queue_for_topic_messages: bool = True
    destination_per_durable_subscriber: bool = False

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ConfigError(f"dead-letter strategy {self.strategy!r} is unknown; one of {', '.join(STRATEGIES)}")
        for option in ("queue_prefix", "topic_prefix"):
            if not getattr(self, option):
                raise ConfigError(f"{option} is empty, so every destination would be a dead-letter queue; give a text")


class BrokerRedelivery(Struct, eq=False, kw_only=True):
    """A policy entry's redelivery by the broker (redeliveryPlugin), with ActiveMQ's options and defaults."""

    maximum_redeliveries: int = 6
    initial_redelivery_delay_ms: int = 1000
    redelivery_delay_ms: int = 1000
    maximum_redelivery_delay_ms: int = -1
    use_exponential_back_off: bool = False
    back_off_multiplier: int = 5
    send_to_dlq_if_max_retries_exceeded: bool = True


class AdvisoryOptions(Struct, eq=False, kw_only=True):
    """What subscribers of advisory topics are told about a policy entry's destinations (``advisory.py``)."""

    expired: bool = False
    dead_letters: bool = False
    #: Whether they are shown the bodies of messages (includeBodyForAdvisory).
    include_body: bool = False


#: What a consumer of each kind has that asks for nothing, and nobody configured it.
QUEUE_PREFETCH: Final = 1000
QUEUE_BROWSER_PREFETCH: Final = 500
TOPIC_PREFETCH: Final = 32767
DURABLE_TOPIC_PREFETCH: Final = 100


class DestinationPolicy(Struct, eq=False):
    """A policy entry. ``match`` is a name, or a pattern with ``*`` (one element) and a last ``>`` (the rest)."""

    match: str
    #: Period of the expiry sweep; 0 or less: no sweep.
    expire_period_ms: int = 30_000
    #: memoryLimit, cursorMemoryHighWaterMark and maxPageSize; 0: none of its own, the broker's applies.
    memory_limit_bytes: int = 0
    high_water_percent: int = 0
    max_page_size: int = 0
    #: Messages that a browser, and the sweep, load without a consumer (G0 to G3).
    max_browse_page_size: int = 400
    max_expire_page_size: int = 400
    #: minimumMessageSize: what a message is charged beside its body and properties.
    minimum_message_bytes: int = 1024
    #: G0 to G3: whether arriving messages may stay in memory; whether a page is no larger than what windows admit.
    use_cache: bool = True
    lazy_dispatch: bool = False
    #: Whether producers wait while memory is full (G0 to G3), or fail: at once, or after a time (0: never). None: as
    #: the broker says. Last: the share of the store's limit from which on persistent messages find no space.
    producer_flow_control: bool = True
    send_fail_if_no_space: bool | None = None
    send_fail_if_no_space_after_ms: int | None = None
    store_high_water_percent: int = 100
    #: Queues: a message of higher JMSPriority is handed out before all waiting ones of lower priority.
    prioritized_messages: bool = False
    #: What consumers get that ask for no prefetch, or for exactly the default of their kind (``prefetch.py``).
    queue_prefetch: int = QUEUE_PREFETCH
    queue_browser_prefetch: int = QUEUE_BROWSER_PREFETCH
    topic_prefetch: int = TOPIC_PREFETCH
    durable_topic_prefetch: int = DURABLE_TOPIC_PREFETCH
    #: Whether DELIVERED acknowledgements widen a consumer's window.
    use_prefetch_extension: bool = True
    #: None: the shared strategy, with ``dead_letter_non_persistent``; what a client gives up is dead at once.
    dead_letter: DeadLetterStrategy | None = None
    redelivery: BrokerRedelivery | None = None
    #: Topics: how many messages may wait for a subscriber that is not durable; -1: no limit. What is remembered.
    pending_message_limit: int = -1
    pending_message_limit_multiplier: float = -1
    recovery: Recovery | None = None
    #: None: those that ``advisory_support`` of the broker switches on.
    advisories: AdvisoryOptions | None = None

    def __post_init__(self) -> None:
        if self.pending_message_limit >= 0 and self.pending_message_limit_multiplier >= 0:
            raise ConfigError(
                f"{self.match} has pending_message_limit {self.pending_message_limit} and "
                f"pending_message_limit_multiplier {self.pending_message_limit_multiplier}; choose one"
            )


class VirtualTopic(Struct, eq=False, kw_only=True):
    """``virtualTopic`` of the virtual destination interceptor: queues that consume from topics by their names."""

    name: str = "VirtualTopic.>"
    prefix: str = "Consumer.*."
    postfix: str = ""


class CompositeDestination(Struct, eq=False):
    """``compositeQueue`` and ``compositeTopic``: a destination that hands copies on. All names with their prefix."""

    name: str
    forward_to: list[str]
    #: False: it keeps a copy itself.
    forward_only: bool = True


class Monitor(Struct, eq=False, kw_only=True):
    """Inactivity settings of the broker's side of each connection. ``read_ms`` 0 or less switches the monitor off.

    ``connect_timeout_ms`` (connectAttemptTimeout) is how long a peer may take to say hello; 0 or less: for ever.
    ``use_monitor`` False: this side watches nothing, not even whether a peer says hello, and beats never, whatever it
    offers; the peer's monitor goes on. ``ask_for_answers`` (keepAliveResponseRequired): own keep-alives want an answer.
    ``ignore_remote`` (ignoreRemoteWireFormat): this side uses its own periods, whatever the peer offers. These two
    concern OpenWire only. ``read_timeout_ms`` (soTimeout): a read that has waited for so long begins anew, which means
    nothing. ``write_timeout_ms`` (soWriteTimeout): a peer that takes nothing of what is written for so long is closed.
    0 or less is none in both. ``heart_beat_grace`` (hbGracePeriodMultiplier), STOMP only: above 1, what the client's
    period is multiplied by. ``default_heart_beat`` (defaultHeartBeat), STOMP only: what a CONNECT without the header
    is taken to say.
    """

    read_ms: int = 30_000
    initial_delay_ms: int = 10_000
    use_keep_alive: bool = True
    connect_timeout_ms: int = 30_000
    use_monitor: bool = True
    ask_for_answers: bool = False
    ignore_remote: bool = False
    read_timeout_ms: int = 0
    write_timeout_ms: int = 0
    heart_beat_grace: float = 1.0
    default_heart_beat: str = "0,0"

    def __post_init__(self) -> None:
        parts = self.default_heart_beat.split(",")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts):
            raise ConfigError(
                f"default_heart_beat {self.default_heart_beat!r} is not two numbers; write such as '5000,5000'"
            )


class BrokerConfig(Struct, eq=False, kw_only=True):
    """All settings of one broker."""

    name: str = "b"
    #: None: the plug-in is not installed.
    timestamping: TimeStamping | None = None
    #: systemUsage/memoryUsage; 0: no limit.
    memory_limit_bytes: int = 64 * 1024 * 1024
    memory_high_water_percent: int = 70  # cursorMemoryHighWaterMark
    page_size: int = 200  # maxPageSize
    #: systemUsage/storeUsage (of a persistent broker) and systemUsage/tempUsage; 0: no limit (``disk.py``).
    store_limit_bytes: int = 0
    temp_limit_bytes: int = 0
    #: What policy entries that do not say it inherit.
    send_fail_if_no_space: bool = False
    send_fail_if_no_space_after_ms: int = 0
    #: concurrentStoreAndDispatchQueues, and whether memory that is freed anywhere wakes starved queues (both: G0 to G3
    #: only; fair always wakes them).
    concurrent_store: bool = False
    wake_on_relief: bool = False
    destinations: list[DestinationPolicy] = field(default_factory=lambda: [DestinationPolicy(">")])
    #: processNonPersistent of the dead-letter strategy.
    dead_letter_non_persistent: bool = False
    monitor: Monitor = field(default_factory=Monitor)
    #: Whether persistent messages outlive the process; needs a journal.
    persistent: bool = False
    #: Whether the sweep looks at the backlogs of durable subscriptions that have a consumer, too.
    enable_message_expiration_on_active_durable_subs: bool = False
    #: Advisories that ActiveMQ always publishes; off, those that a policy entry asks for.
    advisory_support: bool = False
    #: statisticsBrokerPlugin: requests for metrics are answered (``statistics.py``).
    statistics: bool = False
    #: Whether delayed messages are taken (schedulerSupport; else refused), and the longest delay; 0: ten years.
    delay_support: bool = True
    max_delay_ms: int = 0
    #: How often a queue delivers a message again, whoever the client, before it becomes a dead letter; -1: for ever.
    redeliveries_max: int = -1
    #: Whether a NACK may be part of a transaction, as STOMP 1.2 says; ActiveMQ refuses it.
    transacted_nacks: bool = False
    mqsc: list[str] = []  # the commands that define a queue manager's objects (``mq/mqsc.py``)
    virtual_topics: list[VirtualTopic] = field(default_factory=lambda: [VirtualTopic()])
    composite_destinations: list[CompositeDestination] = []
    #: Area -> name, for the areas that are not to be the default one; for all of them once it is made.
    generation: dict[str, str] = {}
    #: Properties that ask for a broker-relative time to live; the first one is what consumers see. Empty: nobody can
    #: ask.
    relative_ttl_names: list[str] = field(default_factory=lambda: [RELATIVE_TTL])

    def __post_init__(self) -> None:
        self.generation = resolve_generation(self.generation)
        check_names(self.relative_ttl_names)


def check_names(names: list[str]) -> None:
    """Raise ``ConfigError`` for names of which one is no property that may ask for a time to live."""
    for wrong in names:
        if wrong in _ABSOLUTE or not wrong:
            raise ConfigError(
                f"relative_ttl_names has {wrong!r}, which is no property of its own; choose another name, such as "
                f"{RELATIVE_TTL!r}"
            )


def resolve_generation(asked: dict[str, str]) -> dict[str, str]:
    """Fill in the defaults; raise ``ConfigError`` for an area or a name that does not exist."""
    for area, name in asked.items():
        if area not in GENERATIONS:
            raise ConfigError(f"generation area {area!r} is unknown; one of {', '.join(GENERATIONS)}")
        if name not in GENERATIONS[area]:
            raise ConfigError(f"generation {name!r} of area {area!r} is unknown; one of {', '.join(GENERATIONS[area])}")
    return {area: asked.get(area, names[0]) for area, names in GENERATIONS.items()}
