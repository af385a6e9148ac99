"""What a client that does not wait for answers learns of a refusal, and when: a transaction of which a part was refused
is not committed, and a producer hears at once that it may not send (openwire.md 10.1, 10.3, 10.8).
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.wire import connections, consumption, ids
from brokerproof.reference_broker.openwire.wire.kinds import Data, Throwable
from brokerproof.reference_broker.security.authority import Authority, Permission
from brokerproof.reference_broker.security.identity import Identity
from tests.fast.reference_broker.openwire.end import NOW, End, node_of, queue

BEGIN, COMMIT, ROLLBACK = 0, 2, 4
GONE = Data(ids.TEMP_QUEUE, ["nobody:1"])
SECURITY = "java.lang.SecurityException"
AUTHORITY = Authority(
    [
        Permission("queue://A", read=["u"], write=["u"], admin=["u"]),
        Permission("queue://full", write=["u"]),
        Permission("queue://only-read", read=["u"], admin=["u"]),
    ]
)


def of(end: End, number: int = 1) -> Data:
    """A transaction's name."""
    return Data(ids.LOCAL_TRANSACTION_ID, [number, Data(ids.CONNECTION_ID, [end.name])])


def step(end: End, kind: int, number: int = 1) -> Data:
    """A step of a transaction; returns the answer."""
    owner = Data(ids.CONNECTION_ID, [end.name])
    return end.ask(connections.TRANSACTION_INFO.make(connectionId=owner, transactionId=of(end, number), type=kind))


def why(answer: Data) -> tuple[str, str]:
    """The class and the text of a refusal."""
    thrown = answer["exception"]
    assert isinstance(thrown, Throwable)
    return thrown.type or "", thrown.message or ""


def announce(end: End, destination: Data, number: int = 7) -> Data:
    """A producer for one destination; returns the answer."""
    made = Data(ids.PRODUCER_ID, [end.name, number, 1])
    return end.ask(connections.PRODUCER_INFO.make(producerId=made, destination=destination))


def guarded() -> tuple[Node, End]:
    """A broker with permissions, and a client that was let in."""
    node = node_of()
    node.require_authentication(AUTHORITY)
    end = End(node, connect=False)
    owner = Data(ids.CONNECTION_ID, [end.name])
    end.tell(connections.CONNECTION_INFO.make(connectionId=owner, clientId=end.name, manageable=True))
    node.admit(1, Identity("u", ("u",)), "", NOW)
    end.tell(connections.SESSION_INFO.make(sessionId=Data(ids.SESSION_ID, [end.name, 1])))
    return node, end


def test_a_transaction_with_a_refused_send_is_rolled_back_and_its_commit_says_why() -> None:
    node = node_of()
    end = End(node)
    producer = end.producer()
    end.tell(end.text(queue("q"), producer, "before", transactionId=None))
    end.consumer(queue("q"))
    assert step(end, BEGIN).kind.name == "Response"
    end.tell(end.text(queue("out"), producer, "good", transactionId=of(end)))
    end.tell(end.text(GONE, producer, "lost", transactionId=of(end)))
    assert end.kinds()[-1] == "ConnectionError"
    answer = step(end, COMMIT)
    assert answer.kind.name == "ExceptionResponse"
    kind, text = why(answer)
    assert kind == "javax.jms.JMSException"
    assert "nobody:1" in text
    counters = node.broker.counters("queue://out", NOW)
    assert counters is None or counters["size"] == 0
    # It is over: the client begins the next one, under any name.
    assert step(end, BEGIN).kind.name == "Response"
    end.tell(end.text(queue("out"), producer, "next", transactionId=of(end)))
    assert step(end, COMMIT).kind.name == "Response"
    assert (node.broker.counters("queue://out", NOW) or {})["size"] == 1
    node.broker.check()


def test_a_rollback_forgets_what_was_refused() -> None:
    node = node_of()
    end = End(node)
    producer = end.producer()
    for ending in (ROLLBACK, COMMIT):
        step(end, BEGIN)
        if ending == ROLLBACK:
            end.tell(end.text(GONE, producer, transactionId=of(end)))
        assert step(end, ending).kind.name == "Response"


def test_who_waited_for_the_refusal_decides_himself() -> None:
    node = node_of()
    end = End(node)
    producer = end.producer()
    step(end, BEGIN)
    assert end.ask(end.text(GONE, producer, transactionId=of(end))).kind.name == "ExceptionResponse"
    end.tell(end.text(queue("out"), producer, transactionId=of(end)))
    assert step(end, COMMIT).kind.name == "Response"
    assert (node.broker.counters("queue://out", NOW) or {})["size"] == 1


def test_a_send_that_is_not_allowed_spoils_its_transaction_too() -> None:
    node, end = guarded()
    producer = end.producer()
    step(end, BEGIN)
    end.tell(end.text(queue("A"), producer, transactionId=of(end)))
    end.tell(end.text(queue("secret"), producer, transactionId=of(end)))
    assert "queue://secret" in why(step(end, COMMIT))[1]
    assert not (node.broker.counters("queue://A", NOW) or {"size": 0})["size"]
    node.broker.check()


def test_a_producer_of_one_destination_makes_it() -> None:
    node = node_of()
    assert announce(End(node), queue("new,other")).kind.name == "Response"
    assert node.broker.destinations() == ["queue://new", "queue://other"]


@pytest.mark.parametrize(
    ("destination", "thrown"),
    [
        (GONE, "org.apache.activemq.DestinationDoesNotExistException"),
        (queue("A.*"), "javax.jms.InvalidDestinationException"),
        (queue(""), "javax.jms.InvalidDestinationException"),
    ],
)
def test_a_producer_of_what_nobody_can_send_to_is_refused(destination: Data, thrown: str) -> None:
    end = End(node_of())
    assert why(announce(end, destination))[0] == thrown


@pytest.mark.parametrize("name", ["only-read", "secret", "A,secret", "full"])
def test_a_producer_that_may_not_send_hears_it_at_once(name: str) -> None:
    """A message that is not persistent would be refused to nobody's knowledge. "full" may be written, not created."""
    node, end = guarded()
    assert why(announce(end, queue(name)))[0] == SECURITY
    assert announce(end, queue("A"), 8).kind.name == "Response"
    assert node.broker.destinations() == ["queue://A"]


def removal(end: End, what: Data) -> Data:
    """RemoveInfo; returns the answer."""
    return end.ask(connections.REMOVE_INFO.make(objectId=what, lastDeliveredSequenceId=-2))


def test_the_end_of_another_connection_is_not_the_end_of_this_one() -> None:
    end = End(node_of())
    assert removal(end, Data(ids.CONNECTION_ID, ["nobody"])).kind.name == "Response"
    end.producer()


def test_a_pull_that_asks_for_an_answer_gets_one() -> None:
    end = End(node_of())
    end.consumer(queue("q"), prefetch=0)
    pull = consumption.MESSAGE_PULL.make(consumerId=Data(ids.CONSUMER_ID, [end.name, 1, 1]), timeout=-1)
    assert end.ask(pull).kind.name == "Response"
    assert end.kinds()[-2:] == ["Response", "MessageDispatch"]


@pytest.mark.parametrize("destination", [queue("never"), GONE])
def test_deleting_what_is_not_there_is_no_error(destination: Data) -> None:
    """A JMS client may delete a temporary queue twice."""
    end = End(node_of())
    owner = Data(ids.CONNECTION_ID, [end.name])
    info = connections.DESTINATION_INFO.make(connectionId=owner, destination=destination, operationType=1)
    assert end.ask(info).kind.name == "Response"


def test_a_subscription_of_another_client_id_is_not_there_and_the_connection_goes_on() -> None:
    end = End(node_of())
    owner = Data(ids.CONNECTION_ID, [end.name])
    info = connections.REMOVE_SUBSCRIPTION_INFO.make(connectionId=owner, subcriptionName="n", clientId="other")
    assert why(end.ask(info))[0] == "javax.jms.InvalidDestinationException"
    end.producer()


def test_a_commit_that_is_refused_ends_its_transaction() -> None:
    """A JMS client takes it for a rollback and never names that transaction again."""
    node = node_of()
    end = End(node)
    producer = end.producer()
    end.consumer(queue("q"))
    end.tell(end.text(queue("q"), producer, "taken"))
    step(end, BEGIN)
    (taken,) = end.dispatched()
    acknowledged = consumption.MESSAGE_ACK.make(
        destination=queue("q"),
        transactionId=of(end),
        consumerId=Data(ids.CONSUMER_ID, [end.name, 1, 1]),
        ackType=2,
        firstMessageId=taken["messageId"],
        lastMessageId=taken["messageId"],
        messageCount=1,
    )
    end.tell(acknowledged)
    held, rival = end.text(queue("out"), producer, transactionId=of(end)), end.text(queue("out"), producer)
    rival["messageId"] = held["messageId"]
    end.tell(held)
    end.tell(rival)
    assert step(end, COMMIT).kind.name == "ExceptionResponse"
    assert node.broker.broker_counters()["transactions"] == 0
    assert step(end, BEGIN, 2).kind.name == "Response"
    acknowledged["transactionId"] = of(end, 2)
    end.tell(acknowledged)
    assert step(end, COMMIT, 2).kind.name == "Response"
    assert (node.broker.counters("queue://q", NOW) or {})["size"] == 0
    node.broker.check()
