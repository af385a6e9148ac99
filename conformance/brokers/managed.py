"""A broker that is managed through Jolokia: its counters and what an operator may do, in the words of a history.

It knows no broker by name: ActiveMQ's agent and the reference broker's management port are read alike
(``tests/live/test_management.py``).

Rule: the broker's totals are those of all runs that it has served, so only its memory in use is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.chaos.brokers.jolokia import JolokiaFailed
from brokerproof.conformance.brokers.base import Operated
from brokerproof.reference_broker.core.message import QUEUE

if TYPE_CHECKING:
    from brokerproof.chaos.brokers.jolokia import Jolokia

_SHARED_COUNTERS = ("memory_percent",)


def counters(jolokia: Jolokia, dest: str | None) -> dict[str, int] | None:
    """Figures of a queue, or of the broker (None); None: topics are not read."""
    if dest is None:
        counters = jolokia.broker_counters()
        return {name: counters[name] for name in _SHARED_COUNTERS if name in counters}
    return jolokia.queue_counters(dest.removeprefix(QUEUE)) if dest.startswith(QUEUE) else None


def operate(jolokia: Jolokia, op: str, dest: str, to: str) -> Operated:
    """``purge`` a queue, ``move`` what waits there, ``reset`` its totals."""
    bean = jolokia.queue_bean(dest.removeprefix(QUEUE))
    try:
        if op == "move":
            moved = jolokia.execute(bean, "moveMatchingMessagesTo(java.lang.String,java.lang.String)", "", to)
            return Operated(int(moved))
        jolokia.execute(bean, "purge()" if op == "purge" else "resetStatistics()")
    except JolokiaFailed as error:
        return Operated(None, str(error))
    return Operated(None)
