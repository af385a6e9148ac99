"""Program: a whole experiment as plain data, ``brokerproof/program/1`` (contracts.md section 1, docs/program.md).

Rules:

* A program replays from its file alone: broker settings, hosts with their clocks, links, destinations and steps.
* References inside steps (``host``, ``dest``, ``link``, ``consumer``, ``upto``) are ordinals, taken modulo what exists
  and fits the step, never names; so any subset of the steps is still a program. Shrinking depends on this.
* Unknown fields are refused, with the path at which they stand: a misspelt setting must not silently do nothing.

The durable artefact of a failure is this file, not a seed of Hypothesis or of ours.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from brokerproof.conformance.experiment.destinations import is_copied, is_temporary
from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.conformance.experiment.steps import REGISTRY, AnyStep

FORMAT = "brokerproof/program/1"
#: More steps than this are refused: a mistake in a generator should not fill the disk.
STEPS_MAX = 100_000
#: The largest number of hosts, links or destinations.
NAMES_MAX = 64


class ProgramError(ValueError):
    """A program cannot be used. The text shows where, the value and the remedy."""

    exit_code = 2


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


class DestinationSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
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


class BrokerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The broker's settings, in the suite's words; each world translates them for its broker."""

    generation: dict[str, str] = {}
    timestamping: TimeStampingSpec | None = None
    memory_limit_bytes: int = 64 * 1024 * 1024
    destinations: list[DestinationSpec] = msgspec.field(default_factory=lambda: [DestinationSpec()])
    dead_letter_non_persistent: bool = False
    #: Persistent messages and durable subscriptions outlive the broker's process; without it there is no ``restart``.
    persistent: bool = False
    #: storeUsage (of a persistent broker) and tempUsage; 0: no limit.
    store_limit_bytes: int = 0
    temp_limit_bytes: int = 0
    #: Whether it takes messages with a delay or a delivery time at all, and the longest delay (0: its own maximum).
    delay_support: bool = True
    delay_max_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    #: What the broker offers on OpenWire links; null: its defaults, which are longer than any link's.
    monitor_offer: MonitorSpec | None = None
    #: The broker's own end of the links; null: its defaults.
    connector: ConnectorSpec | None = None


class DeclaredSpec(BrokerSpec, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a history's header says about the broker: a ``broker`` object plus the monitor of each link (client's name
    -> settings).
    """

    monitor: dict[str, MonitorSpec] = {}
    #: Kept for brokers whose only known setting is the sweep's period.
    expire_period_ms: int | None = None
    #: Some messages become several, one for each of the names or queues that they are sent to.
    copies: bool = False
    #: Some queues live as long as a connection.
    temporaries: bool = False
    #: How late a due message may be on an idle broker before "on time" is in doubt.
    lateness_ms: int = 1000


class ClockSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A host's wall clock against true time: a constant offset and a rate error in parts per million."""

    offset_ms: int = 0
    drift_ppm: int = 0


class HostSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One host: a process with a clock of its own. ``via`` is the client library; ``expiry_check`` False is JMS
    ``consumerExpiryCheckEnabled=false``.
    """

    name: str
    role: Literal["broker", "client"]
    via: Literal["stomp", "jms"] = "stomp"
    clock: ClockSpec = ClockSpec()
    expiry_check: bool = True


class LinkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The network path of one client: its one-way latency, the inactivity monitor that the client offers, and how many
    bytes pass per second and direction (0: no limit; the simulated world only).
    """

    client: str
    latency_us: int = 500
    monitor: MonitorSpec | None = None
    bytes_per_second: int = 0


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The experiment. ``dests`` names the destinations that ``dest`` ordinals choose from; a name that starts with
    ``t`` is a topic, any other a queue.
    """

    format: str
    broker: BrokerSpec
    hosts: list[HostSpec]
    links: list[LinkSpec] = []
    dests: list[str] = msgspec.field(default_factory=lambda: ["q0"])
    steps: list[AnyStep] = []

    def with_steps(self, steps: list[AnyStep]) -> Program:
        """The same experiment with other steps."""
        return msgspec.structs.replace(self, steps=steps)

    def encode(self) -> bytes:
        """Canonical JSON: the same program gives the same bytes."""
        return msgspec.json.encode(self)

    def digest(self) -> str:
        """``sha256:`` of the canonical JSON; how histories and reports name this program."""
        return "sha256:" + hashlib.sha256(self.encode()).hexdigest()

    def clients(self) -> list[HostSpec]:
        """The hosts that are clients, in order."""
        return [host for host in self.hosts if host.role == "client"]

    def broker_host(self) -> HostSpec:
        """The host on which the broker runs."""
        return next(host for host in self.hosts if host.role == "broker")

    def link_of(self, client: str) -> LinkSpec:
        """The link of a client; the default link where the program names none."""
        return next((link for link in self.links if link.client == client), LinkSpec(client))

    def declared(self) -> DeclaredSpec:
        """What a history of this program says about the broker."""
        broker = self.broker
        return DeclaredSpec(
            generation=broker.generation,
            timestamping=broker.timestamping,
            memory_limit_bytes=broker.memory_limit_bytes,
            destinations=broker.destinations,
            dead_letter_non_persistent=broker.dead_letter_non_persistent,
            monitor_offer=broker.monitor_offer,
            connector=broker.connector,
            persistent=broker.persistent,
            store_limit_bytes=broker.store_limit_bytes,
            temp_limit_bytes=broker.temp_limit_bytes,
            delay_support=broker.delay_support,
            delay_max_ms=broker.delay_max_ms,
            copies=any(is_copied(dest) for dest in self.dests),
            temporaries=any(is_temporary(dest) for dest in self.dests),
            monitor={
                host.name: effective
                for host in self.clients()
                if (
                    effective := effective_monitor(
                        self.link_of(host.name).monitor, host.via, self.monitor_generation(), broker.monitor_offer
                    )
                )
                is not None
            },
        )

    def monitor_generation(self) -> str:
        """The generation of inactivity monitor that the program asks for."""
        return self.broker.generation.get("monitor", "documented")


def beyond(declared: DeclaredSpec) -> frozenset[str]:
    """What a history may be about that most oracles know nothing of: ``broker-redelivery``, ``copies``,
    ``temporaries``.
    """
    about = {
        "broker-redelivery": any(entry.redelivery for entry in declared.destinations),
        "copies": declared.copies,
        "temporaries": declared.temporaries,
    }
    return frozenset(name for name, is_so in about.items() if is_so)


_decoder = msgspec.json.Decoder(Program)


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


def parse_program(data: bytes, name: str = "program") -> Program:
    """Parse and check a program. Raises ``ProgramError``."""
    try:
        program = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProgramError(f"{name}: not a {FORMAT} program: {error}{_remedy(str(error))}") from None
    check_program(program, name)
    return program


def _remedy(error: str) -> str:
    """What to write instead of a step that does not exist."""
    found = re.fullmatch(r"Invalid value '(.*)' - at `\$\.steps\[\d+\]\.do`", error)
    if found is None:
        return ""
    known = sorted(str(step.__struct_config__.tag) for step in REGISTRY)
    return f"; {suggestion(found[1], known)}a step is one of {', '.join(known)}"


def read_program(path: Path) -> Program:
    """Read a program file. Raises ``ProgramError``, also for a file that cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ProgramError(f"{path}: cannot be read ({error.strerror}); give the path of a program.json") from None
    return parse_program(data, str(path))


def check_program(program: Program, name: str) -> None:
    """What types cannot say. Raises ``ProgramError``."""
    if program.format != FORMAT:
        raise ProgramError(f"{name}: format is {program.format!r}; this release reads {FORMAT!r}")
    names = [host.name for host in program.hosts]
    brokers = [host.name for host in program.hosts if host.role == "broker"]
    if len(brokers) != 1:
        raise ProgramError(f"{name}: has {len(brokers)} hosts with role 'broker' ({brokers}); exactly one is needed")
    if len(names) == 1:
        raise ProgramError(f"{name}: has no host with role 'client'; add at least one")
    if len(set(names)) != len(names) or "" in names:
        raise ProgramError(f"{name}: host names {names} must be different and not empty")
    for link in program.links:
        if link.client not in names or link.client in brokers:
            raise ProgramError(
                f"{name}: a link names the client {link.client!r}; clients are {[h.name for h in program.clients()]}"
            )
    if not program.dests or len(set(program.dests)) != len(program.dests):
        raise ProgramError(f"{name}: dests is {program.dests}; name at least one destination, each once")
    if max(len(names), len(program.links), len(program.dests)) > NAMES_MAX:
        raise ProgramError(f"{name}: more than {NAMES_MAX} hosts, links or dests")
    if len(program.steps) > STEPS_MAX:
        raise ProgramError(f"{name}: has {len(program.steps)} steps; at most {STEPS_MAX} are accepted")


def json_schema() -> dict[str, Any]:
    """JSON Schema of a program file, written to docs/program.schema.json."""
    return msgspec.json.schema(Program)
