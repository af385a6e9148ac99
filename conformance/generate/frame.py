"""The frame of a program: everything but its steps. Decides the broker's settings field by field, the hosts with their
clocks and libraries, the links, and the destinations; each group of settings is a feature of its own.

A setting that a feature of steps needs is there when the program has that feature: a store for restarts, topics for
durable subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from brokerproof.conformance.experiment.configuration import (
    BrokerSpec,
    ClockSpec,
    ConnectorSpec,
    DeadLetterSpec,
    HostSpec,
    LinkSpec,
    MonitorSpec,
    PolicySpec,
    RedeliverySpec,
    TimeStampingSpec,
)
from brokerproof.conformance.experiment.destinations import (
    DEAD_LETTERS,
    Destination,
    expiries_of,
    presence_of,
    queues,
    topics,
)
from brokerproof.conformance.experiment.dialogues import VERSIONS, choices
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import AnyStep, Probe, Send, Subscribe

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.chooser import Chooser

#: What a frame may have beside what its steps need.
SETTINGS: Final = (
    "several-clients",
    "jms",
    "unchecked",
    "skews",
    "drifts",
    "several-queues",
    "topics",
    "composites",
    "virtuals",
    "stamping",
    "generations",
    "memory-generations",
    "entries",
    "paging",
    "flow",
    "disk",
    "letters",
    "redelivery",
    "advisories",
    "delay-limits",
    "monitors",
    "offers",
    "connectors",
    "slow-links",
    "encoded",
    "queue-managers",
    "transacted-nacks",
)
#: Feature of steps -> settings without which it is about nothing.
IMPLIED: Final[dict[str, tuple[str, ...]]] = {
    "durables": ("topics",),
    "no-local": ("topics",),
    "wildcards": ("several-queues", "topics"),
    "operator": ("several-queues",),
    "limits": ("several-queues",),
    "pull": ("jms",),
    "lifetimes": ("jms",),
    "acknowledgements": ("jms",),
    "bridges": ("jms", "stamping"),
    "presets": ("jms",),
    "repeats": ("jms",),
    "sizes": ("limits",),
    "parallel": ("several-clients",),
    "queue-managers": ("delays",),
    "transacted-nacks": ("nacks", "transactions"),
}

TTLS_MS: Final = (1000, 2000, 120_000, 100, 1, 20_000)
SKEWS_MS: Final = (0, 300_000, -300_000, 1000, -1000, 60_000, -60_000, 30_000, -30_000)
PERIODS_MS: Final = (1000, 500, 0, 30_000)
LATENCIES_US: Final = (0, 500, 10, 20_000)
READS_MS: Final = (1000, 2000, 4000)
DELAYS_MS: Final = (0, 500, 1000, 3000)
#: Memory and disk limits in bytes: a dozen messages reach most of them.
LIMITS_BYTES: Final = (64 * 1024 * 1024, 16 * 1024, 32 * 1024, 8 * 1024)
DISK_BYTES: Final = (0, 16 * 1024, 8 * 1024, 256 * 1024)
#: Area -> generations beside the default.
GENERATIONS: Final = {
    "expiry": "documented",
    "monitor": "classic",
    "timestamping": "classic",
    "purge": "zeroed",
}
MEMORY_GENERATIONS: Final = ("G1", "G3", "G0", "G2")


#: Hours east of Greenwich.
ZONES: Final = (0, 9, -8, 14)


def one_of(chooser: Chooser, values: Any) -> Any:
    """One of these."""
    return values[chooser.below(len(values))]


def draw_frame(chooser: Chooser, features: tuple[str, ...] = ()) -> Program:
    """Draw everything but the steps."""
    clients = 1 + chooser.below(5 if "several-clients" in features else 2)
    hosts = [HostSpec("b", "broker", clock=_draw_clock(chooser, features))]
    links = []
    latency_us = one_of(chooser, LATENCIES_US)
    for number in range(clients):
        # A program about what only JMS knows has such a client.
        jms = "jms" in features and (number == clients - 1 or chooser.flag(40))
        check = not (jms and "unchecked" in features and chooser.flag(40))
        clock = _draw_clock(chooser, features)
        hosts.append(HostSpec(f"c{number}", "client", "jms" if jms else "stomp", clock, check))
        monitor = _draw_monitor(chooser) if "monitors" in features and chooser.flag(80) else None
        slow = "slow-links" in features and chooser.flag(60)
        rate = one_of(chooser, (100_000, 20_000)) if slow else 0
        encoded = chooser.flag(80 if "encoded" in features else 10)
        loose = encoded and not jms and chooser.flag(60)
        links.append(LinkSpec(f"c{number}", latency_us, monitor, rate, encoded, loose))
    dests = _draw_destinations(chooser, features, clients)
    return Program(FORMAT, _draw_broker(chooser, features, dests), hosts, links, dests, [])


def _draw_clock(chooser: Chooser, features: tuple[str, ...]) -> ClockSpec:
    drift_ppm = one_of(chooser, (100, -100)) if "drifts" in features and chooser.flag(50) else 0
    return ClockSpec(one_of(chooser, SKEWS_MS) if "skews" in features else 0, drift_ppm)


def with_zones(chooser: Chooser, program: Program) -> Program:
    """The same where each host has a time zone."""
    zoned = [
        msgspec.structs.replace(host, clock=msgspec.structs.replace(host.clock, zone_hours=one_of(chooser, ZONES)))
        for host in program.hosts
    ]
    return msgspec.structs.replace(program, hosts=zoned)


def with_versions(chooser: Chooser, program: Program) -> Program:
    """The same where some clients of STOMP offer an earlier version alone."""
    clients, steps = program.clients(), list(program.each_step())

    def drawn(host: HostSpec) -> HostSpec:
        if host.role != "client" or host.via != "stomp" or not chooser.flag(75):
            return host
        own = [step for step in steps if clients[getattr(step, "host", -1) % len(clients)] is host]
        plain = program.link_of(host.name).monitor is None and _is_plain(own)
        return msgspec.structs.replace(host, version="1.0" if plain and chooser.flag(75) else "1.1")

    return msgspec.structs.replace(program, hosts=[drawn(host) for host in program.hosts])


def with_logins(chooser: Chooser, program: Program) -> Program:
    """The same on a broker that asks for logins, to which somebody comes who has none."""
    version = VERSIONS[chooser.below(len(VERSIONS))]
    names = choices("stomp", version, greets=True, logins=True)
    probe = Probe(version=version, dialogues=(one_of(chooser, names),), ms=4000)  # type: ignore[arg-type]  # a literal
    place = chooser.below(len(program.steps) + 1)
    broker = msgspec.structs.replace(program.broker, logins=True)
    steps = [*program.steps[:place], probe, *program.steps[place:]]
    return msgspec.structs.replace(program, broker=broker).with_steps(steps)


def _is_plain(steps: list[AnyStep]) -> bool:
    """Whether STOMP 1.0 says what a host asks for: it has no escapes, and leaves open which messages an ACK settles."""
    consumers = [step for step in steps if isinstance(step, Subscribe)]
    plain = all(step.ack == "auto" and not step.browser for step in consumers)
    return plain and not any(step.headers for step in steps if isinstance(step, Send))


def of_generation(program: Program, area: str, name: str) -> Program:
    """The same on a broker of that generation."""
    generation = {**program.broker.generation, area: name}
    return msgspec.structs.replace(program, broker=msgspec.structs.replace(program.broker, generation=generation))


def _draw_monitor(chooser: Chooser) -> MonitorSpec:
    return MonitorSpec(one_of(chooser, READS_MS), one_of(chooser, DELAYS_MS))


def _draw_destinations(chooser: Chooser, features: tuple[str, ...], clients: int) -> list[Destination]:
    found = queues("q0")
    if "several-queues" in features or "composites" in features:
        found += queues("q1", "q2") if chooser.flag(30) else queues("q1")
    if "topics" in features:
        found += topics("t0", "t1") if chooser.flag(30) else topics("t0")
    if "composites" in features:
        found.append(Destination("q0,q1", "composite", queues("q0", "q1")))
    if "virtuals" in features:
        parts = queues("A.tv0", "B.tv0")
        found += [Destination("tv0", "virtual", parts), *parts]
    if "temporaries" in features:
        first = chooser.below(clients)
        owners = [f"c{first}"]
        if clients > 1 and chooser.flag(50):
            owners.append(f"c{(first + 1) % clients}")
        found += [Destination(f"~{owner}", "temporary", host=owner) for owner in owners]
    if "letters" in features and chooser.flag(50):
        found += queues(DEAD_LETTERS)
    if "advisories" in features:
        found += topics(one_of(chooser, (expiries_of, presence_of))("q0"))
    return found


# -- the broker


def _draw_broker(chooser: Chooser, features: tuple[str, ...], dests: list[Destination]) -> BrokerSpec:
    more: dict[str, Any] = {}
    if "offers" in features:
        more["monitor_offer"] = MonitorSpec(one_of(chooser, (1000, 4000, 0, 500)), one_of(chooser, DELAYS_MS))
    if "connectors" in features:
        more["connector"] = _draw_connector(chooser)
    if "delay-limits" in features:
        more["delay_support"] = not chooser.flag(30)
        more["delay_max_ms"] = one_of(chooser, (0, 1000, 60_000))
    if "letters" in features and "jms" not in features:  # whose library gives up by itself
        more["redeliveries_max"] = one_of(chooser, (None, 1, None, 3))
    if "transacted-nacks" in features:
        more["transacted_nacks"] = True
    if "disk" in features:
        more["store_limit_bytes"] = one_of(chooser, DISK_BYTES)
        more["temp_limit_bytes"] = one_of(chooser, DISK_BYTES)
    return BrokerSpec(
        generation=_draw_generation(chooser, features),
        timestamping=_draw_stamping(chooser) if "stamping" in features else None,
        memory_limit_bytes=one_of(chooser, (*LIMITS_BYTES, 0)) if "limits" in features else LIMITS_BYTES[0],
        policies=_draw_entries(chooser, features, dests),
        dead_letter_non_persistent=chooser.flag(25),
        persistent="restarts" in features or chooser.flag(50 if "disk" in features else 15),
        **more,
    )


def _draw_generation(chooser: Chooser, features: tuple[str, ...]) -> dict[str, str]:
    found = {}
    if "generations" in features:
        found = {area: name for area, name in GENERATIONS.items() if chooser.flag(40)}
    if "memory-generations" in features:
        found["memory"] = one_of(chooser, MEMORY_GENERATIONS)
    return found


def _draw_stamping(chooser: Chooser) -> TimeStampingSpec:
    return TimeStampingSpec(
        future_only=chooser.flag(50),
        ttl_ceiling_ms=one_of(chooser, TTLS_MS) if chooser.flag(30) else 0,
        zero_expiration_override_ms=one_of(chooser, TTLS_MS) if chooser.flag(25) else 0,
        process_network_messages=chooser.flag(30),
        restamp_moved=chooser.flag(30),
    )


def _draw_connector(chooser: Chooser) -> ConnectorSpec:
    return ConnectorSpec(
        use_monitor=not chooser.flag(20),
        use_keep_alive=not chooser.flag(20),
        connect_timeout_ms=one_of(chooser, (30_000, 1000, 200, 0)),
        read_timeout_ms=one_of(chooser, (0, 150, 2000)) if chooser.flag(30) else 0,
        write_timeout_ms=one_of(chooser, (0, 1000)) if chooser.flag(30) else 0,
        heart_beat_grace=one_of(chooser, (1.0, 2.5, 1.5)) if chooser.flag(30) else 1.0,
    )


def _draw_entries(chooser: Chooser, features: tuple[str, ...], dests: list[Destination]) -> list[PolicySpec]:
    entries = [_draw_entry(chooser, features, ">")]
    if "entries" in features:
        # Not those of virtual topics, which brokers give names of several elements.
        names = [dest.name for dest in dests if dest.kind in {"queue", "topic"} and "." not in dest.name]
        patterns = ("q0", one_of(chooser, names), "queue://>", "topic://>", "q1" if "virtuals" in features else "*")
        for match in dict.fromkeys([one_of(chooser, patterns), one_of(chooser, patterns)]):
            entries.insert(chooser.below(len(entries) + 1), _draw_entry(chooser, features, match))
    return entries


def _draw_entry(chooser: Chooser, features: tuple[str, ...], match: str) -> PolicySpec:
    fields: dict[str, Any] = {}
    for feature, draw in _ENTRY.items():
        if feature in features and chooser.flag(70):
            fields |= draw(chooser)
    return PolicySpec(match, one_of(chooser, PERIODS_MS), **fields)


def _draw_limits(chooser: Chooser) -> dict[str, Any]:
    return {
        "memory_limit_bytes": one_of(chooser, (None, 8 * 1024, 16 * 1024, 1024)),
        "high_water_percent": one_of(chooser, (0, 100, 50)),
    }


def _draw_redelivery(chooser: Chooser) -> dict[str, Any]:
    spec = RedeliverySpec(
        maximum=one_of(chooser, (1, 3, 0, 6)),
        initial_ms=one_of(chooser, (1100, 0, 500)),
        pause_ms=one_of(chooser, (1100, 0, 2000)),
        multiplier=1 + chooser.below(3),
        longest_ms=one_of(chooser, (-1, 2500)),
        dead_letter=not chooser.flag(30),
    )
    return {"redelivery": spec}


def _draw_letters(chooser: Chooser) -> dict[str, Any]:
    spec = DeadLetterSpec(
        strategy=one_of(chooser, ("individual", "shared", "discarding")),
        process_expired=not chooser.flag(30),
        process_non_persistent=chooser.flag(50),
    )
    return {"dead_letter": spec}


def _draw_windows(chooser: Chooser) -> dict[str, Any]:
    return {
        "queue_prefetch": one_of(chooser, (None, 5, 1)),
        "durable_topic_prefetch": one_of(chooser, (None, 3, 1)),
        "pending_message_limit": one_of(chooser, (None, 2, 0, 5, 1)),
        "topic_inflight_stats": not chooser.flag(30),
    }


#: Feature -> the fields of a policy entry that it is about.
_ENTRY: Final[dict[str, Any]] = {
    "limits": _draw_limits,
    "paging": lambda chooser: {
        "max_page_size": one_of(chooser, (0, 3, 1, 10)),
        "max_expire_page_size": one_of(chooser, (400, 2, 1)),
    },
    "flow": lambda chooser: {
        "producer_flow_control": not chooser.flag(40),
        "send_fail_if_no_space": chooser.flag(50),
    },
    "priorities": lambda _: {"prioritized_messages": True},
    "windows": _draw_windows,
    "letters": _draw_letters,
    "redelivery": _draw_redelivery,
    "advisories": lambda _: {"advisories": True},
}
