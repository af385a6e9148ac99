"""What a broker's management shows within a few seconds: the figures that the questions of seeds 002 and 003 need.

Rules
* Read-only: attributes, and the operation ``doesCursorHaveSpace()``, which looks and changes nothing. ``CacheEnabled``
  and ``browse`` are left alone: reading them moves memory in some releases.
* Several samples, because a standstill and a swing cannot be seen in one. They take ``WATCH_S`` where answers come at
  once; after ``LIMIT_S`` no third one is begun. Each is one request: a busy machine delays every answer. How long one
  may take is decided in ``chaos/brokers/jolokia.py``.
* A figure that the broker does not have is absent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from brokerproof.chaos.brokers.jolokia import DOMAIN
from brokerproof.conformance.brokers.activemq import generation_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.chaos.brokers.jolokia import Jolokia

WATCH_S: Final = 1.6
LIMIT_S: Final = 2.0
SAMPLES: Final = 9
#: A standstill is seen in two.
FEWEST: Final = 2
#: Queues whose cursor is asked for space; the others have no answer.
MOST_ASKED: Final = 20

_BROKER: Final = ("BrokerName", "BrokerVersion", "MemoryPercentUsage", "MemoryLimit", "Generation")
_DESTINATION: Final = (
    "Name",
    "QueueSize",
    "InFlightCount",
    "EnqueueCount",
    "DequeueCount",
    "DispatchCount",
    "ConsumerCount",
    "MemoryPercentUsage",
    "MemoryUsageByteCount",
    "MemoryLimit",
    "Paused",
    "WastedDispatchCount",
)
_CONSUMER: Final = (
    "ClientId",
    "DestinationName",
    "DestinationQueue",
    "DispatchedQueueSize",
    "PrefetchSize",
    "DispatchAsync",
    "Selector",
    "Exclusive",
    "Active",
)

#: The connections.
_LINKS: Final = "connector=clientConnectors,connectorName=*,connectionViewType=clientId,connectionName=*"

Figures = dict[str, Any]


@dataclass
class Sight:
    """All samples. Destinations are called ``queue://NAME`` or ``topic://NAME``."""

    name: str = ""
    version: str = ""
    #: Memory rules (DESIGN section 4): what the broker says, else by its release.
    memory_rules: str = ""
    seconds: float = 0.0
    broker: list[Figures] = field(default_factory=list)
    destinations: dict[str, list[Figures]] = field(default_factory=dict)
    beans: dict[str, str] = field(default_factory=dict)
    consumers: list[Figures] = field(default_factory=list)
    #: Frames that the sockets of connections have not taken, at the last sample.
    unwritten: int = 0
    #: Whether a queue's cursor could read a message into memory, where that was asked and answered.
    space: dict[str, bool] = field(default_factory=dict)

    def of(self, queue: str) -> list[Figures]:
        """The consumers of a queue, at the last sample."""
        return [
            one
            for one in self.consumers
            if one.get("DestinationQueue") and f"queue://{one['DestinationName']}" == queue
        ]

    def moved(self, destination: str, figure: str) -> int | None:
        """By how much a counter grew from the first to the last sample."""
        series = [sample[figure] for sample in self.destinations[destination] if figure in sample]
        return series[-1] - series[0] if len(series) > 1 else None

    def steady(self, destination: str) -> list[Figures]:
        """Its samples, if it was there all the time."""
        samples = self.destinations[destination]
        return samples if len(samples) == len(self.broker) else []


def look(jolokia: Jolokia, sleep: Callable[[float], None] = time.sleep) -> Sight:
    """Take the samples. Raises ``JolokiaFailed``."""
    sight = Sight(name=jolokia.find_broker())
    begun = time.monotonic()
    while True:
        _sample(jolokia, sight)
        sight.seconds, taken = time.monotonic() - begun, len(sight.broker)
        if taken >= SAMPLES or (taken >= FEWEST and sight.seconds > LIMIT_S):
            break
        sleep(max(0.0, begun + taken * WATCH_S / (SAMPLES - 1) - time.monotonic()))
    kept = sight.broker[-1]
    sight.version = str(kept.get("BrokerVersion", "unknown"))
    sight.memory_rules = str(kept.get("Generation", generation_of(sight.version)).get("memory", "unknown"))
    consumers, links = jolokia.read_patterns(
        [
            (f"{jolokia.broker_bean},endpoint=Consumer,*", _CONSUMER),
            (f"{jolokia.broker_bean},{_LINKS}", ("DispatchQueueSize",)),
        ]
    )
    sight.consumers = [consumers[name] for name in sorted(consumers)]
    sight.unwritten = sum(one.get("DispatchQueueSize", 0) for one in links.values())
    _ask_for_space(jolokia, sight)
    return sight


def _sample(jolokia: Jolokia, sight: Sight) -> None:
    # As a pattern, so that an attribute that the broker lacks is absent.
    own = (f"{DOMAIN}:type=Broker,brokerName=*", _BROKER)
    kinds = ("Queue", "Topic")
    below = [(f"{jolokia.broker_bean},destinationType={kind},destinationName=*", _DESTINATION) for kind in kinds]
    broker, *found = jolokia.read_patterns([own, *below])
    sight.broker.append(next(iter(broker.values()), {}))
    for kind, beans in zip(kinds, found, strict=True):
        for bean, figures in beans.items():
            name = f"{kind.lower()}://{figures.get('Name', '')}"
            sight.beans[name] = bean
            sight.destinations.setdefault(name, []).append(figures)


def _ask_for_space(jolokia: Jolokia, sight: Sight) -> None:
    waiting = [
        name
        for name, samples in sight.destinations.items()
        if name.startswith("queue://") and samples[-1].get("QueueSize", 0) and samples[-1].get("ConsumerCount", 0)
    ][:MOST_ASKED]
    answers = jolokia.execute_all([sight.beans[name] for name in waiting], "doesCursorHaveSpace()")
    sight.space = {name: one.value for name, one in zip(waiting, answers, strict=True) if isinstance(one.value, bool)}
