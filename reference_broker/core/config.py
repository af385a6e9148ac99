"""The broker's configuration as data: what an operator may set, with ActiveMQ's defaults where ActiveMQ has the option.

Everything that behaves differently per generation (DESIGN section 4) is chosen by ``generation``: area -> name. Unknown
areas and names are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.retention import Recovery

GENERATIONS: dict[str, tuple[str, ...]] = {
    # area: names, default first
    "monitor": ("documented", "classic"),
    "expiry": ("classic-5.14", "documented"),
    "timestamping": ("documented", "classic"),
    "memory": ("fair", "G0", "G1", "G2", "G3"),
    "purge": ("counted", "zeroed"),
    "in-flight": ("exact",),
    "delay": ("jms", "ibm-mq"),
}


#: The property that asks for a broker-relative time to live.
RELATIVE_TTL = "brokerproof_ttl_ms"
#: Names that are no properties: the protocols give them a field of their own, with another meaning.
_ABSOLUTE = ("JMSExpiration", "expires")


class ConfigError(ValueError):
    """The operator's configuration is unusable. The text shows the value and what would be accepted."""


class TimeStamping:
    """TimeStampingBrokerPlugin's properties. 0 or less in a time is off."""

    __slots__ = (
        "future_only",
        "process_network_messages",
        "restamp_moved",
        "ttl_ceiling_ms",
        "zero_expiration_override_ms",
    )

    def __init__(
        self,
        *,
        future_only: bool = False,
        ttl_ceiling_ms: int = 0,
        zero_expiration_override_ms: int = 0,
        process_network_messages: bool = False,
        restamp_moved: bool = False,
    ) -> None:
        self.future_only = future_only
        self.ttl_ceiling_ms = ttl_ceiling_ms
        self.zero_expiration_override_ms = zero_expiration_override_ms
        self.process_network_messages = process_network_messages
        #: Whether what an operator moves is stamped again, so that its life begins anew, as ActiveMQ does.
        self.restamp_moved = restamp_moved


SHARED = "shared"
INDIVIDUAL_STRATEGY = "individual"
DISCARDING = "discarding"
STRATEGIES = (SHARED, INDIVIDUAL_STRATEGY, DISCARDING)


class DeadLetterStrategy:
    """A policy entry's deadLetterStrategy, with ActiveMQ's defaults. ``expiration_ms``: time to live of a dead letter,
    0 is for ever. ``dead_letter_queue`` is the name of the shared one.
    """

    __slots__ = (
        "dead_letter_queue",
        "destination_per_durable_subscriber",
        "enable_audit",
        "expiration_ms",
        "process_expired",
        "process_non_persistent",
        "queue_prefix",
        "queue_suffix",
        "strategy",
        "topic_prefix",
        "topic_suffix",
        "use_queue_for_queue_messages",
        "use_queue_for_topic_messages",
    )

    def __init__(
        self,
        strategy: str = SHARED,
        *,
        process_expired: bool = True,
        process_non_persistent: bool = False,
        expiration_ms: int = 0,
        enable_audit: bool = True,
        dead_letter_queue: str = "ActiveMQ.DLQ",
        queue_prefix: str = "ActiveMQ.DLQ.Queue.",
        topic_prefix: str = "ActiveMQ.DLQ.Topic.",
        queue_suffix: str = "",
        topic_suffix: str = "",
        use_queue_for_queue_messages: bool = True,
        use_queue_for_topic_messages: bool = True,
        destination_per_durable_subscriber: bool = False,
    ) -> None:
        if strategy not in STRATEGIES:
            raise ConfigError(f"dead-letter strategy {strategy!r} is unknown; one of {', '.join(STRATEGIES)}")
        for option, prefix in (("queue_prefix", queue_prefix), ("topic_prefix", topic_prefix)):
            if not prefix:
                raise ConfigError(f"{option} is empty, so every destination would be a dead-letter queue; give a text")
        self.strategy = strategy
        self.process_expired = process_expired
        self.process_non_persistent = process_non_persistent
        self.expiration_ms = expiration_ms
        self.enable_audit = enable_audit
        self.dead_letter_queue = dead_letter_queue
        self.queue_prefix = queue_prefix
        self.topic_prefix = topic_prefix
        self.queue_suffix = queue_suffix
        self.topic_suffix = topic_suffix
        self.use_queue_for_queue_messages = use_queue_for_queue_messages
        self.use_queue_for_topic_messages = use_queue_for_topic_messages
        self.destination_per_durable_subscriber = destination_per_durable_subscriber


class BrokerRedelivery:
    """A policy entry's redelivery by the broker (redeliveryPlugin), with ActiveMQ's options and defaults."""

    __slots__ = (
        "back_off_multiplier",
        "initial_redelivery_delay_ms",
        "maximum_redeliveries",
        "maximum_redelivery_delay_ms",
        "redelivery_delay_ms",
        "send_to_dlq_if_max_retries_exceeded",
        "use_exponential_back_off",
    )

    def __init__(
        self,
        *,
        maximum_redeliveries: int = 6,
        initial_redelivery_delay_ms: int = 1000,
        redelivery_delay_ms: int = 1000,
        maximum_redelivery_delay_ms: int = -1,
        use_exponential_back_off: bool = False,
        back_off_multiplier: int = 5,
        send_to_dlq_if_max_retries_exceeded: bool = True,
    ) -> None:
        self.maximum_redeliveries = maximum_redeliveries
        self.initial_redelivery_delay_ms = initial_redelivery_delay_ms
        self.redelivery_delay_ms = redelivery_delay_ms
        self.maximum_redelivery_delay_ms = maximum_redelivery_delay_ms
        self.use_exponential_back_off = use_exponential_back_off
        self.back_off_multiplier = back_off_multiplier
        self.send_to_dlq_if_max_retries_exceeded = send_to_dlq_if_max_retries_exceeded


class AdvisoryOptions:
    """What subscribers of advisory topics are told about a policy entry's destinations (``advisory.py``)."""

    __slots__ = ("dead_letters", "expired", "include_body")

    def __init__(self, *, expired: bool = False, dead_letters: bool = False, include_body: bool = False) -> None:
        self.expired = expired
        self.dead_letters = dead_letters
        #: Whether they are shown the bodies of messages (includeBodyForAdvisory).
        self.include_body = include_body


class DestinationPolicy:
    """A policy entry. ``match`` is a name, or a pattern with ``*`` (one element) and a last ``>`` (the rest)."""

    __slots__ = (
        "advisories",
        "dead_letter",
        "durable_topic_prefetch",
        "expire_period_ms",
        "high_water_percent",
        "lazy_dispatch",
        "match",
        "max_browse_page_size",
        "max_expire_page_size",
        "max_page_size",
        "memory_limit_bytes",
        "minimum_message_bytes",
        "pending_message_limit",
        "pending_message_limit_multiplier",
        "prioritized_messages",
        "producer_flow_control",
        "queue_browser_prefetch",
        "queue_prefetch",
        "recovery",
        "redelivery",
        "send_fail_if_no_space",
        "send_fail_if_no_space_after_ms",
        "store_high_water_percent",
        "topic_prefetch",
        "use_cache",
        "use_prefetch_extension",
    )

    def __init__(
        self,
        match: str,
        *,
        expire_period_ms: int = 30_000,
        memory_limit_bytes: int = 0,
        high_water_percent: int = 0,
        max_page_size: int = 0,
        max_browse_page_size: int = 400,
        max_expire_page_size: int = 400,
        minimum_message_bytes: int = 1024,
        use_cache: bool = True,
        lazy_dispatch: bool = False,
        producer_flow_control: bool = True,
        send_fail_if_no_space: bool | None = None,
        send_fail_if_no_space_after_ms: int | None = None,
        store_high_water_percent: int = 100,
        prioritized_messages: bool = False,
        queue_prefetch: int = 1000,
        queue_browser_prefetch: int = 500,
        topic_prefetch: int = 32767,
        durable_topic_prefetch: int = 100,
        use_prefetch_extension: bool = True,
        dead_letter: DeadLetterStrategy | None = None,
        redelivery: BrokerRedelivery | None = None,
        pending_message_limit: int = -1,
        pending_message_limit_multiplier: float = -1,
        recovery: Recovery | None = None,
        advisories: AdvisoryOptions | None = None,
    ) -> None:
        self.match = match
        #: None: the shared strategy, with ``dead_letter_non_persistent``; what a client gives up is dead at once.
        self.dead_letter = dead_letter
        self.redelivery = redelivery
        #: Period of the expiry sweep; 0 or less: no sweep.
        self.expire_period_ms = expire_period_ms
        #: memoryLimit, cursorMemoryHighWaterMark and maxPageSize; 0: none of its own, the broker's applies.
        self.memory_limit_bytes = memory_limit_bytes
        self.high_water_percent = high_water_percent
        self.max_page_size = max_page_size
        #: Messages that a browser, and the sweep, load without a consumer (G0 to G3).
        self.max_browse_page_size = max_browse_page_size
        self.max_expire_page_size = max_expire_page_size
        #: minimumMessageSize: what a message is charged beside its body and properties.
        self.minimum_message_bytes = minimum_message_bytes
        #: G0 to G3: whether arriving messages may stay in memory; whether a page is no larger than what windows admit.
        self.use_cache = use_cache
        self.lazy_dispatch = lazy_dispatch
        #: Whether producers wait while memory is full (G0 to G3), or fail: at once, or after a time (0: never). None:
        #: as the broker says. Last: the share of the store's limit from which on persistent messages find no space.
        self.producer_flow_control = producer_flow_control
        self.send_fail_if_no_space = send_fail_if_no_space
        self.send_fail_if_no_space_after_ms = send_fail_if_no_space_after_ms
        self.store_high_water_percent = store_high_water_percent
        #: Queues: a message of higher JMSPriority is handed out before all waiting ones of lower priority.
        self.prioritized_messages = prioritized_messages
        #: What consumers get that ask for no prefetch, or for exactly the default of their kind (``prefetch.py``).
        self.queue_prefetch = queue_prefetch
        self.queue_browser_prefetch = queue_browser_prefetch
        self.topic_prefetch = topic_prefetch
        self.durable_topic_prefetch = durable_topic_prefetch
        #: Whether DELIVERED acknowledgements widen a consumer's window.
        self.use_prefetch_extension = use_prefetch_extension
        #: Topics: how many messages may wait for a subscriber that is not durable; -1: no limit. What is remembered.
        self.recovery = recovery
        self.pending_message_limit = pending_message_limit
        self.pending_message_limit_multiplier = pending_message_limit_multiplier
        #: None: those that ``advisory_support`` of the broker switches on.
        self.advisories = advisories
        self._check()

    def _check(self) -> None:
        if self.pending_message_limit >= 0 and self.pending_message_limit_multiplier >= 0:
            raise ConfigError(
                f"{self.match} has pending_message_limit {self.pending_message_limit} and "
                f"pending_message_limit_multiplier {self.pending_message_limit_multiplier}; choose one"
            )


class VirtualTopic:
    """``virtualTopic`` of the virtual destination interceptor: queues that consume from topics by their names."""

    __slots__ = ("name", "postfix", "prefix")

    def __init__(self, *, name: str = "VirtualTopic.>", prefix: str = "Consumer.*.", postfix: str = "") -> None:
        self.name = name
        self.prefix = prefix
        self.postfix = postfix


class CompositeDestination:
    """``compositeQueue`` and ``compositeTopic``: a destination that hands copies on. All names with their prefix."""

    __slots__ = ("forward_only", "forward_to", "name")

    def __init__(self, name: str, forward_to: list[str], *, forward_only: bool = True) -> None:
        self.name = name
        self.forward_to = forward_to
        #: False: it keeps a copy itself.
        self.forward_only = forward_only


class Monitor:
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

    __slots__ = (
        "ask_for_answers",
        "connect_timeout_ms",
        "default_heart_beat",
        "heart_beat_grace",
        "ignore_remote",
        "initial_delay_ms",
        "read_ms",
        "read_timeout_ms",
        "use_keep_alive",
        "use_monitor",
        "write_timeout_ms",
    )

    def __init__(
        self,
        *,
        read_ms: int = 30_000,
        initial_delay_ms: int = 10_000,
        use_keep_alive: bool = True,
        connect_timeout_ms: int = 30_000,
        use_monitor: bool = True,
        ask_for_answers: bool = False,
        ignore_remote: bool = False,
        read_timeout_ms: int = 0,
        write_timeout_ms: int = 0,
        heart_beat_grace: float = 1.0,
        default_heart_beat: str = "0,0",
    ) -> None:
        self.use_monitor = use_monitor
        self.ask_for_answers = ask_for_answers
        self.ignore_remote = ignore_remote
        self.read_ms = read_ms
        self.initial_delay_ms = initial_delay_ms
        self.use_keep_alive = use_keep_alive
        self.connect_timeout_ms = connect_timeout_ms
        self.read_timeout_ms = read_timeout_ms
        self.write_timeout_ms = write_timeout_ms
        self.heart_beat_grace = heart_beat_grace
        parts = default_heart_beat.split(",")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts):
            raise ConfigError(
                f"default_heart_beat {default_heart_beat!r} is not two numbers; write such as '5000,5000'"
            )
        self.default_heart_beat = default_heart_beat


class BrokerConfig:
    """All settings of one broker."""

    __slots__ = (
        "advisory_support",
        "composite_destinations",
        "concurrent_store",
        "dead_letter_non_persistent",
        "delay_support",
        "destinations",
        "enable_message_expiration_on_active_durable_subs",
        "generation",
        "max_delay_ms",
        "memory_high_water_percent",
        "memory_limit_bytes",
        "monitor",
        "mqsc",
        "name",
        "page_size",
        "persistent",
        "relative_ttl_names",
        "send_fail_if_no_space",
        "send_fail_if_no_space_after_ms",
        "statistics",
        "store_limit_bytes",
        "temp_limit_bytes",
        "timestamping",
        "virtual_topics",
        "wake_on_relief",
    )

    def __init__(
        self,
        *,
        name: str = "b",
        timestamping: TimeStamping | None = None,
        memory_limit_bytes: int = 64 * 1024 * 1024,
        memory_high_water_percent: int = 70,
        page_size: int = 200,
        store_limit_bytes: int = 0,
        temp_limit_bytes: int = 0,
        send_fail_if_no_space: bool = False,
        send_fail_if_no_space_after_ms: int = 0,
        concurrent_store: bool = False,
        wake_on_relief: bool = False,
        destinations: list[DestinationPolicy] | None = None,
        dead_letter_non_persistent: bool = False,
        monitor: Monitor | None = None,
        persistent: bool = False,
        generation: dict[str, str] | None = None,
        relative_ttl_names: list[str] | None = None,
        virtual_topics: list[VirtualTopic] | None = None,
        composite_destinations: list[CompositeDestination] | None = None,
        enable_message_expiration_on_active_durable_subs: bool = False,
        advisory_support: bool = False,
        statistics: bool = False,
        delay_support: bool = True,
        max_delay_ms: int = 0,
        mqsc: list[str] | None = None,
    ) -> None:
        self.name = name
        #: None: the plug-in is not installed.
        self.timestamping = timestamping
        #: systemUsage/memoryUsage; 0: no limit.
        self.memory_limit_bytes = memory_limit_bytes
        self.memory_high_water_percent = memory_high_water_percent  # cursorMemoryHighWaterMark
        self.page_size = page_size  # maxPageSize
        #: systemUsage/storeUsage (of a persistent broker) and systemUsage/tempUsage; 0: no limit (``disk.py``).
        self.store_limit_bytes = store_limit_bytes
        self.temp_limit_bytes = temp_limit_bytes
        #: What policy entries that do not say it inherit.
        self.send_fail_if_no_space = send_fail_if_no_space
        self.send_fail_if_no_space_after_ms = send_fail_if_no_space_after_ms
        #: concurrentStoreAndDispatchQueues, and whether memory that is freed anywhere wakes starved queues (both: G0 to
        #: G3 only; fair always wakes them).
        self.concurrent_store = concurrent_store
        self.wake_on_relief = wake_on_relief
        self.destinations = destinations if destinations is not None else [DestinationPolicy(">")]
        #: processNonPersistent of the dead-letter strategy.
        self.dead_letter_non_persistent = dead_letter_non_persistent
        self.monitor = monitor if monitor is not None else Monitor()
        #: Whether persistent messages outlive the process; needs a journal.
        self.persistent = persistent
        #: Whether the sweep looks at the backlogs of durable subscriptions that have a consumer, too.
        self.enable_message_expiration_on_active_durable_subs = enable_message_expiration_on_active_durable_subs
        #: Advisories that ActiveMQ always publishes; off, those that a policy entry asks for.
        self.advisory_support = advisory_support
        #: statisticsBrokerPlugin: requests for metrics are answered (``statistics.py``).
        self.statistics = statistics
        #: Whether delayed messages are taken (schedulerSupport; else refused), and the longest delay; 0: ten years.
        self.delay_support = delay_support
        self.max_delay_ms = max_delay_ms
        self.mqsc = mqsc or []  # the commands that define a queue manager's objects (``mq/mqsc.py``)
        self.virtual_topics = virtual_topics if virtual_topics is not None else [VirtualTopic()]
        self.composite_destinations = composite_destinations if composite_destinations is not None else []
        self.generation = resolve_generation(generation or {})
        #: Properties that ask for a broker-relative time to live; the first one is what consumers see. Empty: nobody
        #: can ask.
        self.relative_ttl_names = checked_names(relative_ttl_names)


def checked_names(names: list[str] | None) -> list[str]:
    """Names of properties that may ask for a time to live, the default for None; raise ``ConfigError`` for others."""
    for wrong in names or []:
        if wrong in _ABSOLUTE or not wrong:
            raise ConfigError(
                f"relative_ttl_names has {wrong!r}, which is no property of its own; choose another name, such as "
                f"{RELATIVE_TTL!r}"
            )
    return names if names is not None else [RELATIVE_TTL]


def resolve_generation(asked: dict[str, str]) -> dict[str, str]:
    """Fill in the defaults; raise ``ConfigError`` for an area or a name that does not exist."""
    for area, name in asked.items():
        if area not in GENERATIONS:
            raise ConfigError(f"generation area {area!r} is unknown; one of {', '.join(GENERATIONS)}")
        if name not in GENERATIONS[area]:
            raise ConfigError(f"generation {name!r} of area {area!r} is unknown; one of {', '.join(GENERATIONS[area])}")
    return {area: asked.get(area, names[0]) for area, names in GENERATIONS.items()}
