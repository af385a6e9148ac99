"""The replaceable behaviours of one broker, one object each.

A broker asks its policies and never the configuration, so a planted defect (a *mutant*) is a subclass that overrides
one method, swapped in before the broker is built::

    policies = Policies.from_config(config).replace("delay", EarlyDelay())
    broker = Broker(config, policies)

Rules: an attribute per behaviour; ``BASES`` names the class that a replacement must derive from; the generation tables
of the configuration choose between ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.acknowledgement import Acknowledgement
from brokerproof.reference_broker.core.advisory import AdvisoryPolicy
from brokerproof.reference_broker.core.attachment import Coverage
from brokerproof.reference_broker.core.backlog import Backlog
from brokerproof.reference_broker.core.broker_redelivery import RedeliveryPlugin
from brokerproof.reference_broker.core.browser import Browsing
from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.deadletter import DeadLetter
from brokerproof.reference_broker.core.delay import Delay, delay_policy
from brokerproof.reference_broker.core.duplicate_detection import DuplicateDetection
from brokerproof.reference_broker.core.durable import Durability
from brokerproof.reference_broker.core.exclusive import Exclusivity
from brokerproof.reference_broker.core.expiry import DocumentedExpiry, Expiry
from brokerproof.reference_broker.core.groups import Grouping
from brokerproof.reference_broker.core.in_flight import GENERATIONS as IN_FLIGHT
from brokerproof.reference_broker.core.in_flight import InFlight
from brokerproof.reference_broker.core.journalling import Journalling
from brokerproof.reference_broker.core.memory import Memory
from brokerproof.reference_broker.core.mq.checks import SendChecks
from brokerproof.reference_broker.core.mq.processor import Processor
from brokerproof.reference_broker.core.mq.release import ReleaseFailure
from brokerproof.reference_broker.core.mq.reports import Reports
from brokerproof.reference_broker.core.paging import G0Memory, G1Memory, G2Memory, G3Memory
from brokerproof.reference_broker.core.prefetch import Prefetch
from brokerproof.reference_broker.core.priority import Priority
from brokerproof.reference_broker.core.pull import Pulling
from brokerproof.reference_broker.core.redelivery import Ordering, Redelivery
from brokerproof.reference_broker.core.retention import Retention
from brokerproof.reference_broker.core.round_robin import RoundRobin
from brokerproof.reference_broker.core.routing import FanOut
from brokerproof.reference_broker.core.selection import Selection
from brokerproof.reference_broker.core.temporary import Ownership
from brokerproof.reference_broker.core.time_to_live import RelativeTtl
from brokerproof.reference_broker.core.timestamping import ClassicStamping, Stamping
from brokerproof.reference_broker.core.transaction import Resolution

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.config import BrokerConfig

EXPIRY: Final[dict[str, type[Expiry]]] = {"classic-5.14": Expiry, "documented": DocumentedExpiry}
TIMESTAMPING: Final[dict[str, type[Stamping]]] = {"documented": Stamping, "classic": ClassicStamping}
MEMORY: Final[dict[str, type[Memory]]] = {
    "fair": Memory,
    "G0": G0Memory,
    "G1": G1Memory,
    "G2": G2Memory,
    "G3": G3Memory,
}

#: behaviour -> the class that a replacement must derive from.
BASES: Final[dict[str, type]] = {
    "acknowledgement": Acknowledgement,
    "advisories": AdvisoryPolicy,
    "backlog": Backlog,
    "browsing": Browsing,
    "coverage": Coverage,
    "dead_letter": DeadLetter,
    "delay": Delay,
    "dispatch": RoundRobin,
    "durable": Durability,
    "exclusivity": Exclusivity,
    "expiry": Expiry,
    "journal": Journalling,
    "grouping": Grouping,
    "in_flight": InFlight,
    "relative_ttl": RelativeTtl,
    "memory": Memory,
    "mq_checks": SendChecks,
    "mq_processor": Processor,
    "mq_release": ReleaseFailure,
    "mq_reports": Reports,
    "ordering": Ordering,
    "prefetch": Prefetch,
    "priority": Priority,
    "pulling": Pulling,
    "redelivery": Redelivery,
    "redelivery_plugin": RedeliveryPlugin,
    "duplicate_detection": DuplicateDetection,
    "retention": Retention,
    "selection": Selection,
    "routing": FanOut,
    "temporary": Ownership,
    "timestamping": Stamping,
    "transaction": Resolution,
}


def memory_policy(config: BrokerConfig) -> Memory:
    """The memory policy of the configured generation."""
    memory = MEMORY[config.generation["memory"]]()
    if config.wake_on_relief:
        memory.wakes_on_relief = True
    memory.zeroes = config.generation["purge"] == "zeroed"
    return memory


class Policies:
    """One broker's behaviours."""

    __slots__ = tuple(BASES)

    def __init__(
        self,
        *,
        acknowledgement: Acknowledgement,
        expiry: Expiry,
        relative_ttl: RelativeTtl,
        memory: Memory,
        timestamping: Stamping,
        dead_letter: DeadLetter,
        advisories: AdvisoryPolicy,
        redelivery: Redelivery,
        redelivery_plugin: RedeliveryPlugin,
        delay: Delay,
        in_flight: InFlight,
    ) -> None:
        self.acknowledgement = acknowledgement
        self.advisories = advisories
        self.backlog = Backlog()
        self.browsing = Browsing()
        self.coverage = Coverage()
        self.dead_letter = dead_letter
        self.delay = delay
        self.dispatch = RoundRobin()
        self.durable = Durability()
        self.exclusivity = Exclusivity()
        self.expiry = expiry
        self.journal = Journalling()
        self.grouping = Grouping()
        self.in_flight = in_flight
        self.relative_ttl = relative_ttl
        self.memory = memory
        self.mq_checks = SendChecks()
        self.mq_processor = Processor()
        self.mq_release = ReleaseFailure()
        self.mq_reports = Reports()
        self.ordering = Ordering()
        self.prefetch = Prefetch()
        self.priority = Priority()
        self.pulling = Pulling()
        self.redelivery = redelivery
        self.redelivery_plugin = redelivery_plugin
        self.duplicate_detection = DuplicateDetection()
        self.retention = Retention()
        self.selection = Selection()
        self.routing = FanOut()
        self.temporary = Ownership()
        self.timestamping = timestamping
        self.transaction = Resolution()

    @classmethod
    def from_config(cls, config: BrokerConfig) -> Policies:
        """The behaviours that the configuration asks for."""
        return cls(
            acknowledgement=Acknowledgement(transacted_nacks=config.transacted_nacks),
            expiry=EXPIRY[config.generation["expiry"]](),
            relative_ttl=RelativeTtl(config.relative_ttl_names),
            memory=memory_policy(config),
            timestamping=TIMESTAMPING[config.generation["timestamping"]](config.timestamping),
            dead_letter=DeadLetter(config),
            advisories=AdvisoryPolicy(config),
            redelivery=Redelivery(config.redeliveries_max),
            redelivery_plugin=RedeliveryPlugin(config),
            delay=delay_policy(config.delay_support, config.max_delay_ms),
            in_flight=IN_FLIGHT[config.generation["in-flight"]](),
        )

    def replace(self, name: str, policy: object) -> Policies:
        """Swap one behaviour, in place; returns self. Raises ``ConfigError`` for an unknown name or an object of the
        wrong kind.
        """
        base = BASES.get(name)
        if base is None:
            raise ConfigError(f"policy {name!r} is unknown; one of {', '.join(BASES)}")
        if not isinstance(policy, base):
            raise ConfigError(f"policy {name!r} must derive from {base.__name__}, not {type(policy).__name__}")
        setattr(self, name, policy)
        return self
