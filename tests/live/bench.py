"""What the live tests share: a laboratory, adapters that are at hand, and programs in a few words."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from brokerproof.chaos.preload import library_path
from brokerproof.chaos.tools import ToolFailed, ToolMissing, find_java
from brokerproof.conformance.brokers.activemq import ActiveMQAdapter
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec, LinkSpec
from brokerproof.conformance.experiment.destinations import queues
from brokerproof.conformance.experiment.history import Event, History
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from tests.tools import not_run

Kind = TypeVar("Kind", bound=Event)


def need_clocks() -> None:
    """Not run where clocks cannot be skewed."""
    try:
        library_path()
    except ToolMissing as error:
        not_run(str(error))


def activemq(version: str | None = None) -> ActiveMQAdapter:
    """A release, or not run where it cannot be had."""
    need_clocks()
    try:
        find_java()
        return ActiveMQAdapter(version)
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))


def make_laboratory(folder: Path, *, plain_links: bool = False) -> Laboratory:
    need_clocks()
    return Laboratory(folder, plain_links=plain_links)


def program(
    *steps: AnyStep,
    broker_ms: int = 0,
    producer_ms: int = 0,
    consumer_ms: int = 0,
    broker: BrokerSpec | None = None,
    links: list[LinkSpec] | None = None,
    dests: list[str] | None = None,
) -> Program:
    """A broker ``b``, a producer ``p0`` and a consumer ``c0`` over STOMP."""
    hosts = [
        HostSpec("b", "broker", clock=ClockSpec(broker_ms)),
        HostSpec("p0", "client", clock=ClockSpec(producer_ms)),
        HostSpec("c0", "client", clock=ClockSpec(consumer_ms)),
    ]
    return Program(FORMAT, broker or BrokerSpec(), hosts, links or [], dests or queues("q0"), list(steps))


def events(history: History, kind: type[Kind], host: str | None = None) -> list[Kind]:
    """The events of a kind, perhaps of one host."""
    return [event for event in history.events if isinstance(event, kind) and host in {None, event.host}]
