"""A queue manager with a clock that the tests move, and words for its queues."""

from __future__ import annotations

from collections.abc import Callable

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.core.policies import Policies
from brokerproof.reference_broker.core.records import Record
from brokerproof.reference_broker.jms.client import MqClient, QueueManager

START_MS = 1_700_000_000_000
Q = "queue://Q"
T = "topic://T"
DEADQ = "queue://DEADQ"
REPLY = "queue://REPLY"
STAGING = "SYSTEM.DDELAY.LOCAL.QUEUE"
WITH_DEADQ = ["ALTER QMGR DEADQ(DEADQ)"]
BOTH_AVAILABLE = ["DEFINE TOPIC(T) PMSGDLV(ALLAVAIL)"]
ADMIN = ["SET AUTHREC PROFILE('**') PRINCIPAL('admin') AUTHADD(ADMIN)"]


class Bench:
    """One queue manager at a time: ``crash`` puts the next in its place."""

    def __init__(
        self,
        *mqsc: str,
        persistent: bool = True,
        policies: Callable[[BrokerConfig], Policies] | None = None,
        records: list[Record] | None = None,
        elapsed_ms: int = 0,
    ) -> None:
        self.elapsed_ms = elapsed_ms
        self.settings = [*ADMIN, *mqsc]
        self.policies = policies
        self.manager = QueueManager(self.now, self.settings, persistent=persistent, policies=policies, records=records)
        self.app = MqClient(self.manager, "app")
        self.admin = MqClient(self.manager, "admin")

    def now(self) -> Now:
        return Now((1000 + self.elapsed_ms) * NS_PER_MS, START_MS + self.elapsed_ms)

    def advance(self, delta_ms: int) -> None:
        """Time passes; all that is due happens at its time."""
        end_ms = self.elapsed_ms + delta_ms
        while (due_ns := self.manager.broker.next_due_ns()) is not None:
            due_ms = -(-due_ns // NS_PER_MS) - 1000
            if due_ms > end_ms:
                break
            self.elapsed_ms = max(self.elapsed_ms, due_ms)
            self.manager.tick()
        self.elapsed_ms = end_ms
        self.manager.tick()
        self.manager.broker.check()

    def send(self, destination: str = Q, body: bytes = b"x", delay_ms: int = 1000, **options: object) -> str:
        """Send through the simplified façade."""
        producer = self.app.create_context_producer()
        producer.persistent = bool(options.pop("persistent", True))
        producer.set_delivery_delay(delay_ms)
        return producer.send(destination, body, **options)  # type: ignore[arg-type]

    def depth(self, queue: str = Q) -> int:
        """Messages that stand on a queue."""
        return len(self.manager.broker.browse(queue) or [])

    def leaves(self) -> list[str]:
        """What became of the messages that were due, in order."""
        told = [line.split(" over: ")[1] for line in self.manager.log if " over: " in line]
        return [leaf for line in told for leaf in line.split(", ")]

    def crash(self, records: list[Record]) -> Bench:
        """The queue manager that stands up from these records."""
        return Bench(*self.settings, policies=self.policies, records=records, elapsed_ms=self.elapsed_ms)
