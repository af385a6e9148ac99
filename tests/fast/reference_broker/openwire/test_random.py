"""JMS clients doing anything, in any order: no message is lost or settled twice, and the broker's counters stay right.

Method: Hypothesis draws what two clients' applications do with one queue. A message counts as sent when it was sent
outside a transaction or its transaction was committed, and as consumed likewise. What was sent and not consumed must be
on the queue, on the dead-letter queue, or in a client's hands; after all clients have gone it is on one of the queues.
"""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.openwire.client import ClientSession
from brokerproof.reference_broker.openwire.redelivery_policy import RedeliveryPolicy
from brokerproof.reference_broker.session.notice import Failed
from tests.fast.reference_broker.node.wire_pair import Pair
from tests.fast.reference_broker.openwire.test_openwire import DLQ
from tests.tools import examples

MODES = ("auto", "client", "individual", "transacted")
ACTS = (
    *("send",) * 4,
    *("take",) * 6,
    *("acknowledge", "begin", "commit", "rollback") * 2,
    *("poison", "close", "subscribe", "subscribe", "pause"),
)

STEPS = st.tuples(st.integers(1, 2), st.sampled_from(ACTS), st.integers(0, 11))
SCRIPTS = st.lists(STEPS, min_size=30, max_size=60)


class Application:
    """One client, what it has open, and what it may count on."""

    def __init__(self, pair: Pair, number: int) -> None:
        policy = RedeliveryPolicy(maximum_redeliveries=2, initial_redelivery_delay_ms=0, redelivery_delay_ms=50)
        self.pair = pair
        self.number = number
        self.client: ClientSession = pair.jms(number, redelivery_policy=policy)
        self.transactions = 0
        self.open = ""
        self.mode = ""
        self.consumers = 0
        #: Ack id -> body, of what was taken and not settled.
        self.taken: dict[str, bytes] = {}
        self.sent: list[bytes] = []
        self.consumed: list[bytes] = []
        self.poisoned: list[bytes] = []
        #: The same, as long as the transaction is open.
        self.sending: list[bytes] = []
        self.consuming: list[bytes] = []

    @property
    def consumer(self) -> str:
        return f"c{self.consumers}"

    def act(self, what: str, argument: int) -> None:
        getattr(self, f"_{what}")(argument)
        self.pair.run()
        self.pair.node.broker.check()

    def _send(self, argument: int) -> None:
        body = f"{self.number}/{len(self.sent) + len(self.sending)}/{self.transactions}".encode()
        self.client.send("queue://q", body, self.pair.now(self.number), transaction=self.open)
        (self.sending if self.open else self.sent).append(body)

    def _subscribe(self, argument: int) -> None:
        if not self.mode:
            self.mode = MODES[argument % len(MODES)]
            self.consumers += 1
            self.client.subscribe(self.consumer, "queue://q", (1, 3, 1000)[argument // 4], ack=self.mode)

    def _take(self, argument: int) -> None:
        if not self.mode or (self.mode == "transacted" and not self.open):
            return
        got, _ = self.client.take(self.consumer, self.pair.now(self.number))
        if got is None:
            return
        if self.mode == "auto":
            self.consumed.append(got.body)
        elif self.mode == "transacted":
            self.consuming.append(got.body)
        else:
            self.taken[got.ack_id] = got.body

    def _acknowledge(self, argument: int) -> None:
        if not self.taken:
            return
        settled = list(self.taken)
        if self.mode == "client":
            assert self.client.acknowledge(self.consumer, transaction=self.open) == settled
        else:
            settled = [settled[argument % len(settled)]]
            self.client.acknowledge_one(self.consumer, settled[0], transaction=self.open)
        bodies = [self.taken.pop(ack_id) for ack_id in settled]
        (self.consuming if self.open else self.consumed).extend(bodies)

    def _poison(self, argument: int) -> None:
        if self.taken and not self.open:
            ack_id = list(self.taken)[argument % len(self.taken)]
            self.client.poison(self.consumer, ack_id)
            self.poisoned.append(self.taken.pop(ack_id))

    def _begin(self, argument: int) -> None:
        if not self.open:
            self.transactions += 1
            self.open = f"t{self.transactions}"
            self.client.begin(self.open)

    def _commit(self, argument: int) -> None:
        if self.open:
            self.client.commit(self.open)
            self.sent += self.sending
            self.consumed += self.consuming
            self._ended()

    def _rollback(self, argument: int) -> None:
        if self.open:
            self.client.rollback(self.open)
            self._ended()

    def _ended(self) -> None:
        self.open = ""
        self.sending = []
        self.consuming = []

    def _close(self, argument: int) -> None:
        # A transacted session is closed as a whole: what it has taken is not consumed.
        if self.mode and not (self.mode == "transacted" and self.open):
            self.client.close_consumer(self.consumer)
            self.taken = {}
            self.mode = ""

    def _pause(self, argument: int) -> None:
        self.pair.advance(argument * 20)


def bodies_on(pair: Pair, name: str) -> list[bytes]:
    return [message.body for message in pair.node.broker.browse(name) or []]


@settings(max_examples=examples(35), deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Settled one by one, the newer message first, and then rolled back.
@example(
    script=[
        *[(1, "send", 0)] * 3,
        *[(2, "take", 0)] * 2,
        (2, "begin", 0),
        (2, "acknowledge", 1),
        (2, "acknowledge", 0),
        (2, "rollback", 0),
    ],
    modes=(0, 6),
)
@example(  # what comes back while another is in the application's hands is acknowledged behind it
    script=[
        *[(1, "send", 0)] * 3,
        *[(2, "take", 0), (2, "begin", 0), (2, "acknowledge", 0), (2, "take", 0), (2, "rollback", 0)],
        *[(2, "take", 0), (2, "begin", 0), (2, "acknowledge", 0), (2, "rollback", 0)],
    ],
    modes=(0, 1),
)
@given(script=SCRIPTS, modes=st.tuples(st.integers(0, 11), st.integers(0, 11)))
def test_any_applications(script: list[tuple[int, str, int]], modes: tuple[int, int]) -> None:
    pair = Pair(BrokerConfig(dead_letter_non_persistent=True))
    applications = {number: Application(pair, number) for number in (1, 2)}
    for number, mode in zip((1, 2), modes, strict=True):
        applications[number].act("subscribe", mode)
    for number, what, argument in script:
        applications[number].act(what, argument)
    everybody = applications.values()
    assert not [notice for number in applications for notice in pair.of(number, Failed)]
    for application in everybody:
        application.client.disconnect()
    pair.run()
    pair.node.broker.check()
    consumed = [body for application in everybody for body in application.consumed]
    left = bodies_on(pair, "queue://q") + bodies_on(pair, DLQ)
    assert sorted(consumed + left) == sorted(body for application in everybody for body in application.sent)
    dead = bodies_on(pair, DLQ)
    assert all(body in dead for application in everybody for body in application.poisoned)
    assert pair.node.broker.broker_counters()["in_flight"] == 0
