"""What becomes of what dies on a broker without being told: its dead letters lie in a queue for each source, or what
expires is none.

A program's policies say so in its stead. Of dead letters apart topics, and whatever else the profile cannot name, have
none that the suite looks for.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from brokerproof.conformance.experiment.configuration import BrokerSpec, DeadLetterSpec, PolicySpec
from brokerproof.conformance.experiment.policies import divided


class Letters(NamedTuple):
    """``apart``: each queue's dead letters are in a queue of its own; ``expired``: what expires becomes one."""

    apart: bool = False
    expired: bool = True

    def default(self, broker: BrokerSpec, kind: str) -> DeadLetterSpec | None:
        """The strategy of ``queue`` or ``topic`` that nobody need tell it; None: ActiveMQ's."""
        if self.apart:
            strategy = DeadLetterSpec(strategy="discarding" if kind == "topic" else "individual")
            return replace(strategy, process_expired=self.expired)
        if self.expired:
            return None
        return DeadLetterSpec(process_expired=False, process_non_persistent=broker.dead_letter_non_persistent)

    def needless(self, broker: BrokerSpec, strategy: DeadLetterSpec | None) -> bool:
        """Whether it does so anyway."""
        return strategy is not None and strategy in [self.default(broker, kind) for kind in ("queue", "topic")]

    def applied(self, broker: BrokerSpec) -> BrokerSpec:
        """A program's settings as such a broker has them; what a policy itself says of dead letters stays."""
        if self == ACTIVEMQ:
            return broker
        found: dict[str, PolicySpec] = {}
        for entry in (*broker.policies, PolicySpec(expire_period_ms=0)):
            kind, name = divided(entry.match)
            if kind != "topic":
                strategy = entry.dead_letter or self.default(broker, "queue")
                found.setdefault(entry.match, replace(entry, dead_letter=strategy))
            if kind != "queue":
                match, strategy = f"topic://{name}", entry.dead_letter or self.default(broker, "topic")
                found.setdefault(match, replace(entry, match=match, dead_letter=strategy))
        return replace(broker, policies=list(found.values()))


#: One queue for all dead letters, and what expires is there.
ACTIVEMQ: Final = Letters()
