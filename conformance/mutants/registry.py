"""Mutants: planted defects that prove that a rule can fail.

Rules:

* A mutant is run configuration (``--mutant ID``): one policy object (or the monitor) of the reference broker is swapped
  when it is built. So it reaches spawned brokers, Spark executors and xdist workers by its name alone, and it is
  recorded in the history's header.
* It changes a decision, never crashes, and names the requirement that must catch it. Others may catch it too.
* ``live``: it must die in the live world as well.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.inactivity import GENERATIONS, Monitor, MonitorFactory, monitor_for
from brokerproof.reference_broker.node import BrokerFactory, Node
from brokerproof.reference_broker.openwire.bridge import Bridge
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.storage.journal import Journal

#: Makes the replacement from the configuration (some policies have parameters).
PolicyMaker = Callable[[BrokerConfig], object]
#: Makes the monitor at a client's end: (generation, address, elapsed ns) -> monitor.
ClientMonitorFactory = Callable[[str, str, int], Monitor]


class MutantError(ValueError):
    """There is no mutant of this name."""

    exit_code = 2


class Mutant(Struct, eq=False):
    """One planted defect: a policy, the core, the node around it, the monitor of the broker or of the clients, the
    bridge between two brokers, or how the broker reads its clock (simulated world).
    """

    id: str
    requirement: str
    sentence: str
    #: Attribute of ``Policies`` that is replaced; "" for a mutant of something else.
    policy: str = ""
    make: PolicyMaker | None = None
    broker: BrokerFactory | None = None
    monitor: MonitorFactory | None = None
    client_monitor: ClientMonitorFactory | None = None
    jms_client: type[ClientSession] | None = None
    node: type[Node] | None = None
    bridge: type[Bridge] | None = None
    #: It takes its host's local time for the time.
    local_time: bool = False
    live: bool = False


class Build:
    """What a broker is built from: configuration, policies, core and monitors, with a mutant swapped in or not."""

    def __init__(self, config: BrokerConfig, mutant: Mutant | None) -> None:
        planted = mutant or Mutant("", "", "")
        self.config = config
        self.policies = Policies.from_config(config)
        if planted.make is not None:
            self.policies.replace(planted.policy, planted.make(config))
        self.monitor_factory: MonitorFactory = planted.monitor or monitor_for
        self.broker_factory: BrokerFactory = planted.broker or Broker
        self.client_monitor: ClientMonitorFactory = planted.client_monitor or client_monitor_for
        self.jms_client: type[ClientSession] = planted.jms_client or ClientSession
        self.make_node: type[Node] = planted.node or Node
        self.bridge: type[Bridge] = planted.bridge or Bridge
        self.local_time = planted.local_time

    def node(self, journal: Journal | None = None) -> Node:
        """The broker."""
        return self.make_node(self.config, self.policies, self.monitor_factory, self.broker_factory, journal)


def client_monitor_for(generation: str, address: str, now_ns: int) -> Monitor:
    """The monitor at a client's end."""
    return GENERATIONS[generation](address, now_ns, connect_timeout_ms=0)


def check_known(mutants: dict[str, Mutant], mutant: str | None) -> None:
    """Raise ``MutantError`` for a name that nobody has."""
    if mutant is not None and mutant not in mutants:
        raise MutantError(
            f"mutant {mutant!r} is unknown; {suggestion(mutant, mutants)}"
            f"`brokerproof list mutants` shows all {len(mutants)} of them"
        )


def build_with(mutants: dict[str, Mutant], mutant: str | None, config: BrokerConfig) -> Build:
    """The parts of a broker. Raises ``MutantError`` for an unknown name."""
    check_known(mutants, mutant)
    return Build(config, None if mutant is None else mutants[mutant])


def fresh(policy: type) -> PolicyMaker:
    """A maker for policies without settings: a new one for each broker, because some remember."""

    def make(config: BrokerConfig) -> object:  # noqa: ARG001 - they have none
        return policy()

    return make
