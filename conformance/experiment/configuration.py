"""Configuration: the broker's settings, the hosts with their clocks and the links, as a program writes them.

``BrokerSpec`` is in the suite's words; each world translates it for its broker. ``DeclaredSpec`` is what a history's
header says of it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec


class TimeStampingSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """TimeStampingBrokerPlugin's properties; 0 in a time is off."""

    future_only: bool = False
    ttl_ceiling_ms: int = 0
    zero_expiration_override_ms: int = 0
    #: Whether it acts on what came over a network bridge, and on what an operator moves (whose life begins anew then).
    process_network_messages: bool = False
    restamp_moved: bool = False


class DeadLetterSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A policy entry's deadLetterStrategy: one queue for all, one for each source, or none."""

    strategy: Literal["shared", "individual", "discarding"] = "shared"
    process_expired: bool = True
    process_non_persistent: bool = False


class RedeliverySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A policy entry's redelivery by the broker (redeliveryPlugin): how often a rejected message comes again, and after
    which pauses.
    """

    maximum: Annotated[int, msgspec.Meta(ge=-1)] = 6
    initial_ms: Annotated[int, msgspec.Meta(ge=0)] = 1000
    pause_ms: Annotated[int, msgspec.Meta(ge=0)] = 1000
    #: Each pause is so many times the one before; 1: all are alike.
    multiplier: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    #: The longest pause; -1: no limit.
    longest_ms: Annotated[int, msgspec.Meta(ge=-1)] = -1
    #: Whether it becomes a dead letter after the last time; otherwise it vanishes.
    dead_letter: bool = True


class PolicySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A policy entry; ``match`` is a destination's name or a pattern (``>`` is all)."""

    match: str = ">"
    expire_period_ms: int = 1000
    memory_limit_bytes: int | None = None
    #: cursorMemoryHighWaterMark; 0: the broker's default (70).
    high_water_percent: int = 0
    #: maxPageSize, 0: the broker's (200), and maxExpirePageSize: messages that are loaded from the store at once, for a
    #: consumer or by the sweep.
    max_page_size: int = 0
    max_expire_page_size: int = 400
    #: What happens to a send while memory is full: it waits, unless there is no flow control; or it fails at once.
    producer_flow_control: bool = True
    send_fail_if_no_space: bool = False
    #: Queues: messages of higher priority go before all waiting ones of lower priority.
    prioritized_messages: bool = False
    #: Topics: how many messages may wait for a subscriber that is not durable, beyond its window; absent: any number.
    pending_message_limit: Annotated[int, msgspec.Meta(ge=0)] | None = None
    #: What consumers get that ask for the default of their kind, or for nothing; absent: the default.
    queue_prefetch: Annotated[int, msgspec.Meta(ge=1)] | None = None
    durable_topic_prefetch: Annotated[int, msgspec.Meta(ge=1)] | None = None
    #: useTopicSubscriptionInflightStats; a broker that keeps lists anyway has nothing to switch.
    topic_inflight_stats: bool = True
    #: None: the shared strategy, with the broker's ``dead_letter_non_persistent``.
    dead_letter: DeadLetterSpec | None = None
    #: None: what a client rejects is a dead letter at once.
    redelivery: RedeliverySpec | None = None
    #: Whether advisories tell of what expires and of what becomes a dead letter.
    advisories: bool = False


class MonitorSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Inactivity settings: ``read_ms`` (R), ``initial_delay_ms`` (D); ``read_ms`` 0 is off."""

    read_ms: int
    initial_delay_ms: int


class ConnectorSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the broker's end of every connection is watched, whatever the clients' ends do: the options of a transport
    connector, 0 or less in a time is off. ``heart_beat_grace`` (STOMP) is hbGracePeriodMultiplier.
    """

    use_monitor: bool = True
    use_keep_alive: bool = True
    connect_timeout_ms: int = 30_000
    #: soTimeout, soWriteTimeout.
    read_timeout_ms: int = 0
    write_timeout_ms: int = 0
    heart_beat_grace: float = 1.0


#: A login and its passcode, of clients of a broker of ours that asks for one.
LOGIN: Final = ("brokerproof", "Let-me-in-2")


class BrokerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The broker's settings, in the suite's words; each world translates them for its broker."""

    generation: dict[str, str] = {}
    timestamping: TimeStampingSpec | None = None
    memory_limit_bytes: int = 64 * 1024 * 1024
    policies: list[PolicySpec] = msgspec.field(default_factory=lambda: [PolicySpec()])
    dead_letter_non_persistent: bool = False
    #: Persistent messages and durable subscriptions outlive the broker's process; without it there is no ``restart``.
    persistent: bool = False
    #: storeUsage (of a persistent broker) and tempUsage; 0: no limit.
    store_limit_bytes: int = 0
    temp_limit_bytes: int = 0
    #: Whether it takes messages with a delay or a delivery time at all, and the longest delay (0: its own maximum).
    delay_support: bool = True
    delay_max_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: How often it delivers a message again, to whomever, before it gives it up (a dead letter, or gone); -1: for ever.
    redeliveries_max: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    #: Whether a NACK may be part of a transaction, as STOMP 1.2 says; ActiveMQ refuses it.
    transacted_nacks: bool = False
    #: Whether only who names a login and its passcode is let in; a program's clients know one (``LOGIN``).
    logins: bool = False
    #: Generation ``delay`` "ibm-mq": the commands that define its objects.
    mqsc: list[str] = []
    #: What the broker offers on OpenWire links; null: its defaults, which are longer than any link's.
    monitor_offer: MonitorSpec | None = None
    #: The broker's own end of the links; null: its defaults.
    connector: ConnectorSpec | None = None

    @property
    def limits_disk(self) -> bool:
        """Whether the store, or temporary files, may be full."""
        return self.store_limit_bytes > 0 or self.temp_limit_bytes > 0


class DeclaredSpec(BrokerSpec, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a history's header says about the broker: a ``broker`` object plus the monitor of each link (client's name
    -> settings) and what its links let through.
    """

    monitor: dict[str, MonitorSpec] = {}
    #: Client's name -> how many bytes pass its link per second and direction; without limit for others.
    bytes_per_second: dict[str, int] = {}
    #: Client's name -> what passes its link may be late by up to twice as much.
    jitter_us: dict[str, int] = {}
    #: Host's name -> how many hours east of Greenwich it is; UTC for others.
    zones: dict[str, int] = {}
    #: What a consumer gets that asks for no prefetch (no browser); None: what the protocol says.
    default_prefetch: Annotated[int, msgspec.Meta(ge=1)] | None = None
    #: Kept for brokers whose only known setting is the sweep's period.
    expire_period_ms: int | None = None
    #: How late a due message may be on an idle broker before "on time" is in doubt.
    lateness_ms: int = 1000
    #: After how many of a silent STOMP client's periods its documentation lets it be given up; None: it says nothing.
    heart_beat_grace: Annotated[float, msgspec.Meta(ge=1)] | None = None
    #: From when a delay counts of what is sent in a transaction; JMS: from the send.
    delay_begins: Literal["send", "commit"] = "send"


class ClockSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A host's wall clock against true time: a constant offset and a rate error in parts per million. What its local
    time is ahead of UTC (whole hours, east of Greenwich) changes no instant.
    """

    offset_ms: int = 0
    drift_ppm: int = 0
    zone_hours: Annotated[int, msgspec.Meta(ge=-12, le=14)] = 0

    @property
    def zone(self) -> str:
        """The time zone for a text; "" where local time is UTC."""
        return f"UTC{self.zone_hours:+d} h" if self.zone_hours else ""


#: Name of the host that drains what is left at the first broker. A program must not use it.
DRAIN_HOST: Final = "drain"


def drain_host(broker: str) -> str:
    """Who drains a broker; "" is the first one."""
    return f"{DRAIN_HOST}-{broker}" if broker else DRAIN_HOST


def is_drain(host: str) -> bool:
    """Whether a host is one that drains."""
    return host == DRAIN_HOST or host.startswith(f"{DRAIN_HOST}-")


class HostSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One host: a process with a clock of its own. ``via`` is the client library; ``expiry_check`` False is JMS
    ``consumerExpiryCheckEnabled=false``. ``at`` is the broker that a client uses; "": the program's first.

    A ``bridge`` runs beside the broker ``at`` and carries all queues of the program from there to the broker ``to``;
    its link is the one between the two. With ``topics`` it also has a proxy subscription to each topic of the program.

    ``user``: as whom a client logs in, without a password; "": as nobody. A queue manager gives users authorities.
    ``version``: the only version of STOMP that a client offers; "": all of them.
    """

    name: str
    role: Literal["broker", "client", "bridge"]
    via: Literal["stomp", "jms"] = "stomp"
    clock: ClockSpec = ClockSpec()
    expiry_check: bool = True
    at: str = ""
    to: str = ""
    topics: bool = False
    user: str = ""
    version: Literal["", "1.0", "1.1"] = ""


#: Of a link that cuts what it carries into slices, at least.
SLICES_PER_SECOND: Final = 500


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The network path of one client, or of one bridge to its far broker: its one-way latency, the
    inactivity monitor that the client offers, how many bytes pass per second and direction (0: no limit), and whether
    the simulated world, too, sends frames as bytes, through the codecs of both ends (slower; the history is the same).
    ``loose``, with ``encoded``: a STOMP client writes as freely as the protocol allows, to the same effect.

    ``jitter_us``: what passes is late by up to twice as much, now more, now less, in order. ``slice_bytes``: it passes
    in slices of so many bytes at most, one after the other (0: as it is written).
    """

    client: str
    latency_us: int = 500
    monitor: MonitorSpec | None = None
    bytes_per_second: int = 0
    encoded: bool = False
    loose: bool = False
    jitter_us: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    slice_bytes: Annotated[int, msgspec.Meta(ge=0, le=65_536)] = 0

    def modes(self) -> list[str]:
        """What a history tells of it beside its rate, as faults."""
        return [name for name, wanted in (("jitter", self.jitter_us), ("slice", self.slice_bytes)) if wanted]

    def rate(self) -> int:
        """Bytes that pass per second and direction at least; 0: no limit. Each slice takes its time."""
        rates = [self.bytes_per_second, self.slice_bytes * SLICES_PER_SECOND]
        return min([rate for rate in rates if rate], default=0)


def stomp_beat_ms(monitor: MonitorSpec, generation: str) -> int:
    """The heart-beat period that makes a STOMP link's read period ``monitor.read_ms``.

    The documented generation reads with twice the promised period, because STOMP asks receivers to be tolerant; the
    classic one with the period itself.
    """
    return monitor.read_ms if generation == "classic" else monitor.read_ms // 2


def effective_monitor(
    monitor: MonitorSpec | None, via: str, generation: str, offer: MonitorSpec | None = None
) -> MonitorSpec | None:
    """What the two ends really agree on: STOMP has no initial delay of its own, it starts after one beat period. None:
    no monitor.
    """
    if monitor is None or monitor.read_ms <= 0 or (offer is not None and offer.read_ms <= 0):
        return None
    if via != "stomp":
        if offer is None:
            return monitor
        shorter_ms = min(monitor.initial_delay_ms, offer.initial_delay_ms)
        return MonitorSpec(min(monitor.read_ms, offer.read_ms), shorter_ms)
    beat_ms = stomp_beat_ms(monitor, generation)
    return MonitorSpec(beat_ms if generation == "classic" else 2 * beat_ms, beat_ms)
