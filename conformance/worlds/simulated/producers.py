"""Calls of a JMS producer in a given order: what is set before the send counts for it, what is refused changes nothing.

The producer is that of the reference broker's own client (``jms/client.py``), in the process of its broker; only a
queue manager's refuses anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from brokerproof.reference_broker.jms.client import JMSException, JMSRuntimeException, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from brokerproof.conformance.experiment import operations as ops
    from brokerproof.conformance.worlds.port import Outcome
    from brokerproof.conformance.worlds.simulated.broker import BrokerHost

SEND = "send"


def _agrees(delay_ms: int, life_ms: int) -> tuple[str, str]:  # noqa: ARG001 - as a queue manager's
    """Nothing speaks against a life below the delay: such a message expires while it waits."""
    return "", ""


class Calls:
    """Those of one send. ``said``: what it asks for; ``told``: what became of it, with the calls."""

    def __init__(self, broker: BrokerHost, asked: ops.Send) -> None:
        stage = broker.node.broker.region().stage
        self._asked = asked
        facade, *order = asked.calls.split()
        self._producer = Producer(
            _agrees if stage is None else stage.setting, JMSException if facade == "classic" else JMSRuntimeException
        )
        self._left: Iterator[str] = iter(order)
        self._called: list[tuple[str, int, str]] = []
        self._go_on()
        ttl_ms, delay_ms = self._producer.time_to_live_ms, self._producer.delivery_delay_ms
        self.said = msgspec.structs.replace(asked, calls="", ttl_ms=ttl_ms, delay_ms=delay_ms)

    def _go_on(self) -> None:
        """Up to the send, or to the end."""
        for call in self._left:
            if call == SEND:
                return
            life = call == "life"
            ms = self._asked.ttl_ms if life else self._asked.delay_ms
            wrong = ""
            try:
                (self._producer.set_time_to_live if life else self._producer.set_delivery_delay)(ms)
            except JMSException as error:
                wrong = f"{type(error).__name__}: {error}"
            self._called.append((call, ms, wrong))

    def told(self, outcome: Outcome) -> Outcome:
        """The same, with all calls: the send is over, the others come now."""
        thrown = f"{self._producer.failure.__name__}: {outcome.refusal}" if outcome.result == "fail" else ""
        self._called.append((SEND, 0, thrown))
        self._go_on()
        outcome.called = self._called
        outcome.stamps = {**outcome.stamps, "ttl_ms": self.said.ttl_ms, "delay_ms": self.said.delay_ms}
        return outcome
