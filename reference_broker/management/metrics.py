"""Prometheus metrics of one broker, by the standard client library.

* Names end in their unit; what only grows ends in ``_total``. A destination's metrics carry ``destination`` (as clients
  write it) and ``type``. What a destination has no metric for is absent, never 0.
* Metrics are collected in pieces, so that a broker with many destinations goes on working; the text is made beside the
  loop. ``resetStatistics`` sets totals back to 0; Prometheus takes that for a restart, as it should.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from brokerproof.reference_broker.core.matching import split
from brokerproof.reference_broker.core.metrics import of_disk
from brokerproof.reference_broker.management.brokers import uptime_ms

if TYPE_CHECKING:
    from brokerproof.reference_broker.management.broker_view import BrokerView

PREFIX: Final = "brokerproof_broker"
#: Destinations after which others may run.
PIECE: Final = 50
_MS_PER_S: Final = 1000
#: The core's counter -> (metric, what it says). A metric whose name ends in _total only grows.
_DESTINATION: Final[dict[str, tuple[str, str]]] = {
    "size": ("messages", "Messages on a queue, in flight or not."),
    "in_flight": ("messages_in_flight", "Messages written to consumers and not settled; may swing below 0."),
    "scheduled": ("messages_scheduled", "Messages that wait for their delivery time."),
    "enqueued": ("messages_enqueued_total", "Messages that became visible."),
    "dequeued": ("messages_dequeued_total", "Messages that left: acknowledged, expired, dead-lettered, purged."),
    "dispatched": ("messages_dispatched_total", "Messages written to consumers."),
    "acknowledged": ("messages_acknowledged_total", "Messages that consumers settled."),
    "wasted": ("dispatches_wasted_total", "Dispatches that came to nothing because the consumer left."),
    "expired": ("messages_expired_total", "Messages that expired."),
    "discarded": ("messages_discarded_total", "What slow subscribers of a topic lost to their pending limit."),
    "consumers": ("consumers", "Consumers and browsers."),
    "memory_bytes": ("memory_bytes", "Memory charged to a destination."),
    "memory_limit_bytes": ("memory_limit_bytes", "Memory limit of a destination; 0 is none."),
    "blocked_sends": ("sends_waiting", "Sends that wait for memory or for the disk now."),
}
#: The same of what lies on the disk, which is counted only while it has a limit.
_DISK: Final[dict[str, tuple[str, str]]] = {
    "store_bytes": ("store_bytes", "Persistent messages in the store."),
    "store_limit_bytes": ("store_limit_bytes", "Limit of the store."),
    "temp_bytes": ("temporary_files_bytes", "Messages that wait in temporary files."),
    "temp_limit_bytes": ("temporary_files_limit_bytes", "Limit of temporary files."),
}


#: A destination's name, its type, and its counters.
_Row = tuple[str, str, dict[str, int]]


class Metrics:
    """The metrics of one view."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, view: BrokerView, defer: Callable[[Callable[[], None]], None]) -> None:
        self._view = view
        self._defer = defer

    def text(self, then: Callable[[Callable[[], bytes]], None]) -> None:
        """Collect; ``then`` gets what makes the text of it."""
        self._go_on(self._pieces(), then)

    def _go_on(self, pieces: Iterator[_Snapshot | None], then: Callable[[Callable[[], bytes]], None]) -> None:
        snapshot = next(pieces)
        if snapshot is None:
            self._defer(lambda: self._go_on(pieces, then))
        else:
            then(lambda: generate_latest(snapshot))

    def _pieces(self) -> Iterator[_Snapshot | None]:
        """Gives None while it is at it, the metrics at the end."""
        view = self._view
        rows: list[_Row] = []
        for count, destination in enumerate(list(view.region.destinations.values()), 1):
            prefix, name = split(destination.name)
            metrics = view.node.broker.counters(destination.name, view.clocks()) or {}
            rows.append((_printable(name), prefix.removesuffix("://"), metrics))
            if not count % PIECE:
                yield None
        yield _Snapshot(list(self._broker()), rows)

    def _broker(self) -> Iterator[Metric]:
        view = self._view
        root = view.region.memory.root
        info = InfoMetricFamily(PREFIX, "The broker: name, version and generations.")
        chosen = view.node.config.generation.items()
        generations = {f"generation_{area.replace('-', '_')}": name for area, name in chosen}
        info.add_metric([], {"name": view.node.config.name, "version": view.version, **generations})
        yield info
        for name, text, value in (
            ("uptime_seconds", "Time since the start.", uptime_ms(view) / _MS_PER_S),
            ("connections", "Connections that have finished their handshake.", len(view.connections())),
            ("broker_memory_bytes", "Memory in use by all destinations.", root.used_bytes),
            ("broker_memory_limit_bytes", "Memory limit of the broker; 0 is none.", root.limit_bytes),
            *((*_DISK[metric], value) for metric, value in of_disk(view.region).items() if metric in _DISK),
        ):
            family = _family(name, text, [])
            family.add_metric([], value)
            yield family


class _Snapshot(CollectorRegistry):
    """The metrics of one moment, as a registry. Families are made one at a time, when their text is: a broker may have
    many destinations, and so many samples at once would keep the garbage collector busy.
    """

    def __init__(self, broker: list[Metric], rows: list[_Row]) -> None:
        super().__init__(auto_describe=False)
        self._broker = broker
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        yield from self._broker
        for metric, (name, text) in _DESTINATION.items():
            family = _family(name, text, ["destination", "type"])
            for destination, kind, metrics in self._rows:
                if metric in metrics:
                    family.add_metric([destination, kind], metrics[metric])
            yield family


def _printable(name: str) -> str:
    """A name as UTF-8 can carry it; half of a surrogate pair, which OpenWire hands on, is shown as an escape."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _family(name: str, text: str, labels: list[str]) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    return kind(f"brokerproof_{name}", text, labels=labels)
