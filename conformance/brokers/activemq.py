"""ActiveMQ Classic, a release at hand: launched by ``chaos.brokers``, one process per set of settings, shared by runs.

Rules
* A program's settings become the broker's XML. A policy for ``q0`` is written ``q0.>``, because a run's queue is called
  ``q0.RUN``.
* A broker process serves one run after the other (``servers.py``): a JVM's timers (the expiry scan, heart-beats, the
  scheduler) stand still for the length of a step back. ``LANES`` runs go side by side, each on a process of its own.
* Delayed messages need the scheduler, and that a store on disk; a memory limit means something only where messages can
  go to a store. Programs without either get a broker that is all in memory, which starts faster.
* Figures come through Jolokia (``managed.py``).
* Programs that live faster (``--speed``) have processes of their own, whose clocks run at that rate. JMS hosts are
  played by our own OpenWire client then: a JVM inside a Python process cannot follow.
* In a network every broker carries its host's name, and its own network connector is the bridge. Who has one serves a
  single run, because its ports and queues are that run's.

Known exceptions: which thread dispatches cannot be chosen over STOMP since 5.15.5, so ``sync-dispatch`` is not offered
(transport). Counters of topics are not read. Queues are not told to order by priority: ``priorities`` is not offered.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from brokerproof.chaos.brokers.activemq import ActiveMQ
from brokerproof.chaos.brokers.beans import (
    KINDS,
    ActiveMQOptions,
    Kind,
    NetworkConnector,
    PolicyEntry,
    Redelivery,
    TimeStamping,
)
from brokerproof.chaos.brokers.jars import DEBIAN_VERSION, RELEASES, BrokerJars, obtain
from brokerproof.chaos.brokers.stomp import StompRefused, clock
from brokerproof.conformance.agents.kinds import JMS, OPENWIRE
from brokerproof.conformance.brokers import managed
from brokerproof.conformance.brokers.base import Adapter, Endpoint, Operated
from brokerproof.conformance.brokers.casting import claimed
from brokerproof.conformance.brokers.launching import Launcher
from brokerproof.conformance.brokers.servers import Servers
from brokerproof.conformance.brokers.settings import told_policies
from brokerproof.conformance.experiment.configuration import BrokerSpec, PolicySpec
from brokerproof.conformance.experiment.policies import divided, entry_for, specificity
from brokerproof.conformance.experiment.steps.operation import OPERATIONS
from brokerproof.conformance.experiment.steps.probe import Probe
from brokerproof.conformance.experiment.steps.send import Send

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.chaos.clocks import ClockFile, ClockReading, RatedClock
    from brokerproof.chaos.processes import Process, Supervisor
    from brokerproof.conformance.brokers.base import Connector, Laboratory
    from brokerproof.conformance.brokers.chosen import Chosen
    from brokerproof.conformance.brokers.profile import Located
    from brokerproof.conformance.brokers.servers import Server
    from brokerproof.conformance.experiment.configuration import ClockSpec
    from brokerproof.conformance.experiment.program import Program

CAPABILITIES = [
    "advisories",
    "broker-redelivery",
    "browsers",
    "browses-in-flight",
    "composites",
    "counters",
    "dead-letter",
    "default-prefetch",
    "delay",
    "durables",
    "ends-durables",
    "exclusive",
    "expiry-check",
    "groups",
    "jms-semantics",
    "keeps-rolled-back",
    "memory-counters",
    "memory-limit",
    "monitor",
    "nack",
    "network",
    "operator",
    "persistent",
    "prefetch",
    "pull",
    "restart",
    "selectors",
    "temporaries",
    "timestamping",
    "topics",
    "transactions",
    "ttl",
    "virtual-topics",
    "wildcards",
]
#: The redeliveryPlugin refuses shorter pauses.
PLUGIN_MS = 1000
#: Area -> (first release, generation), newest first: what a release is (DESIGN section 4).
GENERATIONS: dict[str, tuple[tuple[tuple[int, ...], str], ...]] = {
    "monitor": (((0,), "classic"),),
    # The client's word that a message has expired is believed since 5.14 (AMQ-6361).
    "expiry": (((5, 14), "classic-5.14"), ((0,), "documented")),
    "timestamping": (((0,), "classic"),),
    # The scheduler begins a message's life at its release, and sends a publication to whoever is subscribed then.
    "delay": (((0,), "activemq"),),
    "memory": (((5, 15, 9), "G3"), ((5, 15), "G2"), ((5, 9), "G1"), ((0,), "G0")),
}
#: How many runs go side by side, most of whose time is waiting.
LANES = 4
#: Which thread dispatches could be chosen over STOMP before this release (AMQ-7011).
_ASYNC_ONLY = (5, 15, 5)
#: Field of a policy entry -> (the value that is everybody's, the first release that knows another one, where that is
#: told). An older broker would not start.
_SINCE: dict[str, tuple[bool, tuple[int, ...], str]] = {
    "send_fail_if_no_space": (False, (5, 16), "AMQ-6849"),
    "topic_inflight_stats": (True, (5, 15, 4), "AMQ-6940"),
}
#: What the broker's log says when it gives a connection up.
_CLOSED = re.compile(r"Transport Connection to: \S+ failed: (.*)")


class ActiveMQLauncher(Launcher):
    """One release's broker, in the words of ``servers.py``."""

    def __init__(self, broker: ActiveMQ) -> None:
        self.broker = broker

    def start(self) -> None:
        self.broker.start()
        self.process = self.broker.process
        ports = (self.broker.stomp_port, self.broker.openwire_port, self.broker.jolokia_port)
        self.ports = dict(zip(("stomp", "openwire", "jolokia"), ports, strict=True))

    def stop(self) -> int:
        return self.broker.stop()

    def kill(self) -> int:
        return self.broker.kill()


class ActiveMQEndpoint(Endpoint):
    """A broker process while a run uses it."""

    def __init__(self, adapter: ActiveMQAdapter, server: Server, *, stained: bool) -> None:
        """``stained``: nobody else is to have it afterwards."""
        assert isinstance(server.launcher, ActiveMQLauncher), "it started it"
        self._adapter = adapter
        self._server = server
        self._stained = stained
        self._launcher = server.launcher
        self.broker = server.launcher.broker
        self.clock_file = server.clock_file
        self.label = adapter.label
        self._log_read = 0

    def port(self, via: str) -> int:
        return self.broker.openwire_port if via == "jms" else self.broker.stomp_port

    def library(self, via: str) -> str:
        return OPENWIRE if via == JMS and self._launcher.broker.clock_rate > 1 else via

    def words(self, via: str) -> Sequence[str]:
        if self.library(via) == OPENWIRE:
            return ()
        path = os.pathsep.join(str(jar) for jar in self._adapter.jars.client_class_path)
        return ("--class-path", path) if via == "jms" else ()

    def counters(self, dest: str | None) -> dict[str, int] | None:
        return managed.counters(self.broker.jolokia, dest)

    def read_clock(self) -> ClockReading | None:
        try:
            return clock(self.broker.stomp_port)
        except (OSError, StompRefused):
            return None

    def operate(self, op: str, dest: str, to: str, limit_bytes: int = 0) -> Operated | None:
        del limit_bytes
        return managed.operate(self.broker.jolokia, op, dest, to) if op in OPERATIONS else None

    def restart(self, how: str) -> dict[str, int] | None:
        return self._launcher.restart(how)

    def process(self) -> Process:
        return self._launcher.process

    def closings(self) -> list[str]:
        text = self.broker.process.log.read_text(encoding="utf-8", errors="replace")
        end = text.rfind("\n") + 1
        found = _CLOSED.findall(text[self._log_read : end])
        self._log_read = end
        return [str(reason) for reason in found]

    def dispose(self, *, spoilt: bool = False) -> None:
        self._adapter.servers.give_back(self._server, spoilt=spoilt or self._stained)


class ActiveMQAdapter(Adapter):
    """``version``: a release that ``chaos.brokers.jars`` knows; ``home``: a folder instead; neither: Debian's."""

    name = "activemq"
    releases = RELEASES
    homes = True
    connects = True
    operations = OPERATIONS
    workers = lanes = LANES
    speed_max = 30

    @classmethod
    def of_profile(cls, located: Located, chosen: Chosen) -> ActiveMQAdapter:
        del located  # what a release promises is told apart by its number
        return cls(chosen.release, chosen.home)

    def __init__(self, version: str | None = None, home: Path | None = None) -> None:
        """Raises ``ToolMissing``, ``ToolFailed``, ``UnknownRelease`` or ``NotAHome``."""
        self.jars: BrokerJars = obtain(version, home)
        self.label = f"activemq {self.jars.version}"
        self.servers = Servers(self.name, skewed=True, shared=False)

    def capabilities(self) -> list[str]:
        chosen = ["sync-dispatch"] if release_of(self.jars.version) < _ASYNC_ONLY else []
        return sorted([*CAPABILITIES, *chosen])

    def refusal(self, program: Program) -> str:
        if program.broker.connector is not None:
            return "this broker's connectors are what they are: the program asks for options of its own (connector)"
        limited = program.broker.redeliveries_max not in {None, -1}
        limit = f"{self.label} has no limit of redeliveries of its own (redeliveries_max)" if limited else ""
        unknown = unknown_to(release_of(self.jars.version), program)
        return limit or unknown or redelivery_refusal(program, self.label) or super().refusal(program)

    def sharing_key(self, program: Program) -> str:
        return _key(options_of(program), program.broker_host().clock, self.rate(program).times)

    def cast(self, program: Program) -> Program:
        return msgspec.structs.replace(program, broker=claimed(program.broker, self.capabilities()))

    def effective(self, program: Program) -> Program:
        broker = program.broker
        stamping = broker.timestamping
        if stamping is not None:
            stamping = msgspec.structs.replace(stamping, restamp_moved=True)
        generation = {**broker.generation, **generation_of(self.jars.version)}
        return msgspec.structs.replace(
            program,
            broker=msgspec.structs.replace(
                broker,
                generation=generation,
                monitor_offer=None,
                delay_max_ms=0,
                timestamping=stamping,
                redeliveries_max=-1,
            ),
        )

    def open(self, program: Program, laboratory: Laboratory) -> Endpoint:
        return self.open_beside(program, laboratory, ())

    def open_beside(self, program: Program, laboratory: Laboratory, connectors: Sequence[Connector]) -> Endpoint:
        del laboratory
        options, clock, rate = options_of(program, connectors), program.broker_host().clock, self.rate(program)

        def start(supervisor: Supervisor, folder: Path, name: str, file: ClockFile | RatedClock | None) -> Launcher:
            return ActiveMQLauncher(ActiveMQ(supervisor, self.jars, folder, options=options, clock=file, name=name))

        key = _key(options, clock, rate.times)
        # What a client that reads nothing had sent stays charged (known/activemq-5.17.toml).
        deaf = any(isinstance(step, Probe) and step.deaf for step in program.each_step())
        server = self.servers.take(key, clock, start, alone=True, rate=rate)
        return ActiveMQEndpoint(self, server, stained=deaf or bool(options.networks))

    def close(self) -> None:
        self.servers.close()


def _key(options: ActiveMQOptions, clock: ClockSpec, times: int) -> str:
    """What cannot be changed while a process runs."""
    return repr((options, clock.zone_hours, times))


def release_of(version: str) -> tuple[int, ...]:
    """``5.17.2`` as numbers; a version that cannot be read counts as newer than all."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else (999,)


def unknown_to(release: tuple[int, ...], program: Program) -> str:
    """Which setting of a policy entry that a program asks for a release does not know; "" if it knows all."""
    for field, (plain, first, source) in _SINCE.items():
        if release < first and any(getattr(entry, field) is not plain for entry in program.broker.policies):
            since = ".".join(map(str, first))
            return f"this release does not know what the program sets ({field}, since {since}: {source})"
    return ""


def generation_of(version: str) -> dict[str, str]:
    """What a release is, by area."""
    release = release_of(version)
    return {
        area: next(name for first, name in generations if release >= first) for area, generations in GENERATIONS.items()
    }


#: The default release, for who does not start it: what it is called, is when it is asked for nothing, and offers.
DEFAULT = f"activemq {DEBIAN_VERSION}"
DEFAULT_SPEC = BrokerSpec(generation=generation_of(DEBIAN_VERSION))
DEFAULT_OFFERS = frozenset({*CAPABILITIES, *OPERATIONS})


def options_of(program: Program, connectors: Sequence[Connector] = ()) -> ActiveMQOptions:
    """A program's settings in the launcher's words."""
    broker = program.broker
    delays = broker.delay_support and any(isinstance(step, Send) and step.delay_ms for step in program.each_step())
    redelivers = any(entry.redelivery is not None for entry in broker.policies)
    limited = broker.memory_limit_bytes < BrokerSpec().memory_limit_bytes or any(
        entry.memory_limit_bytes is not None for entry in broker.policies
    )
    stamping = broker.timestamping
    return ActiveMQOptions(
        store="kahadb" if delays or redelivers or limited or broker.persistent else "memory",
        scheduler=delays or redelivers,
        timestamping=None
        if stamping is None
        else TimeStamping(
            stamping.future_only,
            stamping.ttl_ceiling_ms,
            stamping.zero_expiration_override_ms,
            stamping.process_network_messages,
        ),
        memory_limit_bytes=broker.memory_limit_bytes,
        policies=tuple(_policies(broker)),
        name=program.broker_host().name,
        networks=tuple(NetworkConnector(**msgspec.structs.asdict(one)) for one in connectors),
    )


def redelivery_refusal(program: Program, label: str) -> str:
    """What a redeliveryPlugin cannot be told, which has a map of its own and one flag for all dead letters; "": all."""
    broker = program.broker
    entries = [entry for entry in broker.policies if entry.redelivery is not None]
    policies = [entry.redelivery for entry in entries if entry.redelivery is not None]
    if any(min(policy.initial_ms, policy.pause_ms) <= PLUGIN_MS for policy in policies):
        return f"{label} redelivers after more than {PLUGIN_MS} ms only; the program asks for a shorter pause"
    if len({policy.dead_letter for policy in policies}) > 1:
        return f"{label} makes dead letters of what was tried too often on all queues, or on none (redelivery)"
    plugin = msgspec.structs.replace(broker, policies=entries)
    queues = [one for dest in program.destinations for one in (dest, *dest.of) if one.kind == "queue"]
    for dest in queues:
        found = entry_for(plugin, dest.name, topic=False)
        if found is not None and found is not entry_for(broker, dest.name, topic=False):
            return f"{label} redelivers on {dest.name} by the wider policy {found.match} (redelivery)"
    return ""


def _attributes(entry: PolicySpec, kind: str) -> dict[str, str]:
    """Attributes of a policy entry that are not the default."""
    attributes = {}
    if entry.high_water_percent:
        attributes["cursorMemoryHighWaterMark"] = str(entry.high_water_percent)
    if entry.max_page_size:
        attributes["maxPageSize"] = str(entry.max_page_size)
    if entry.max_expire_page_size != PolicySpec().max_expire_page_size:
        attributes["maxExpirePageSize"] = str(entry.max_expire_page_size)
    if not entry.producer_flow_control:
        attributes["producerFlowControl"] = "false"
    if entry.send_fail_if_no_space:
        attributes["sendFailIfNoSpace"] = "true"
    if entry.prioritized_messages and kind == "queue":
        attributes["prioritizedMessages"] = "true"
    if entry.queue_prefetch is not None and kind == "queue":
        attributes["queuePrefetch"] = str(entry.queue_prefetch)
    if entry.durable_topic_prefetch is not None and kind == "topic":
        attributes["durableTopicPrefetch"] = str(entry.durable_topic_prefetch)
    if not entry.topic_inflight_stats and kind == "topic":
        attributes["useTopicSubscriptionInflightStats"] = "false"
    return attributes


def _policies(broker: BrokerSpec) -> list[PolicyEntry]:
    """One entry for each kind and pattern. Of several ActiveMQ takes any, and it knows no ``queue://`` in a pattern.
    ``*.*`` goes before ``q0.>`` there, and ``q0.*`` before that.
    """
    found: dict[tuple[str, str], PolicyEntry] = {}
    told = sorted(told_policies(broker), key=lambda entry: specificity(entry.match))
    starred = any(divided(entry.match)[1].endswith("*") for entry in told)
    for entry in told:
        only, match = divided(entry.match)
        match = f"{match.removesuffix('.>')}.*" if starred and match.endswith(".>") else match
        for kind in KINDS:
            if only in {"", kind}:
                found.setdefault((kind, match), _policy(broker, entry, kind, match))
    return list(found.values())


def _policy(broker: BrokerSpec, entry: PolicySpec, kind: Kind, match: str) -> PolicyEntry:
    letters = entry.dead_letter
    return PolicyEntry(
        match,
        kind,
        entry.expire_period_ms,
        entry.memory_limit_bytes,
        broker.dead_letter_non_persistent if letters is None else letters.process_non_persistent,
        _attributes(entry, kind),
        pending_message_limit=entry.pending_message_limit if kind == "topic" else None,
        dead_letters="shared" if letters is None else letters.strategy,
        process_expired=letters is None or letters.process_expired,
        redelivery=None if entry.redelivery is None else Redelivery(**msgspec.structs.asdict(entry.redelivery)),
    )


__all__ = ["ActiveMQAdapter", "ActiveMQEndpoint", "options_of", "redelivery_refusal"]
