"""Who is connected, and who hears of it: client ids, successors, advisories about comings and goings."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.advisory import Advisory
from brokerproof.reference_broker.core.config import BrokerConfig, DestinationPolicy
from brokerproof.reference_broker.core.connection_registry import (
    ConnectionAdvisory,
    ConsumerAdvisory,
    DestinationAdvisory,
    PresenceAdvisory,
    ProducerAdvisory,
)
from brokerproof.reference_broker.core.duplicate_detection import PRODUCERS, DuplicateDetection
from brokerproof.reference_broker.core.effects import Accepted, Dispatch, Displaced, Granted, Refused
from brokerproof.reference_broker.core.events import (
    AddDestination,
    AddProducer,
    Connect,
    Disconnect,
    RemoveDestination,
    RemoveProducer,
    Resize,
    Send,
)
from brokerproof.reference_broker.core.message import Message
from tests.fast.reference_broker.core.driver import Driver

TEMP = "temp-queue://c1:1"


def told(d: Driver, consumer: str) -> list[PresenceAdvisory]:
    """What a consumer was told, in order."""
    found = []
    for effect in d.effects:
        if isinstance(effect, Dispatch) and effect.consumer == consumer and isinstance(effect.message, Advisory):
            assert isinstance(effect.message.data_structure, PresenceAdvisory)
            found.append(effect.message.data_structure)
    return found


def listen(d: Driver, name: str, topic: str) -> None:
    d.subscribe(name, f"topic://ActiveMQ.Advisory.{topic}")


def test_who_listens_hears_of_temporary_destinations_first_of_those_that_are_there() -> None:
    d = Driver()
    d.handle(AddDestination(1, TEMP))
    listen(d, "c", "TempQueue")
    d.handle(AddDestination(1, "temp-queue://c1:2"))
    d.handle(RemoveDestination(1, TEMP))
    d.handle(AddDestination(1, "temp-topic://c1:3"))
    d.handle(Disconnect(1))
    seen = [(one.destination, one.gone) for one in told(d, "c") if isinstance(one, DestinationAdvisory)]
    assert seen == [
        (TEMP, False),
        ("temp-queue://c1:2", False),
        (TEMP, True),
        ("temp-queue://c1:2", True),
    ]


def test_nothing_is_told_while_nobody_listens() -> None:
    d = Driver()
    d.subscribe("c", "topic://>")
    d.handle(AddDestination(1, TEMP))
    d.subscribe("other", "queue://q")
    assert d.broker.destinations() == [TEMP, "queue://q"]


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_who_listens_hears_of_destinations_first_of_those_that_are_there(kind: str) -> None:
    d = Driver()
    d.subscribe("other", f"{kind}://old")
    listen(d, "c", kind.title())
    d.send(f"{kind}://new")
    d.handle(AddDestination(1, "temp-queue://c1:1"))
    d.handle(AddDestination(1, f"{'topic' if kind == 'queue' else 'queue'}://not-this"))
    d.handle(RemoveDestination(1, f"{kind}://new"))
    seen = [(one.destination, one.gone) for one in told(d, "c") if isinstance(one, DestinationAdvisory)]
    assert seen == [(f"{kind}://old", False), (f"{kind}://new", False), (f"{kind}://new", True)]


def test_who_listens_to_all_destinations_is_told_of_each_kind() -> None:
    d = Driver()
    d.subscribe("other", "queue://q")
    listen(d, "c", "Queue,topic://ActiveMQ.Advisory.Topic,topic://ActiveMQ.Advisory.TempQueue")
    d.send("topic://t")
    d.handle(AddDestination(1, TEMP))
    seen = [one.destination for one in told(d, "c") if isinstance(one, DestinationAdvisory)]
    assert seen == ["queue://q", "topic://t", TEMP]


@pytest.mark.parametrize("ends", [RemoveProducer(1, "1.p"), Disconnect(1)])
def test_producers_are_counted_until_they_or_their_connection_go(ends: RemoveProducer | Disconnect) -> None:
    d = Driver()
    d.handle(AddProducer(1, "queue://q", "1.p"))
    listen(d, "c", "Producer.Queue.q")
    d.connect(2)
    d.handle(AddProducer(2, "queue://q,topic://t", "2.p"))
    d.handle(ends)
    d.handle(RemoveProducer(2, "2.p"))
    d.handle(RemoveProducer(2, "2.p"))
    found = [one for one in told(d, "c") if isinstance(one, ProducerAdvisory)]
    seen = [(one.name, one.destination, one.count, one.gone) for one in found]
    assert seen == [
        ("1.p", "queue://q", 1, False),
        ("2.p", "queue://q", 2, False),
        ("1.p", "queue://q", 1, True),
        ("2.p", "queue://q", 0, True),
    ]
    assert found[0].properties() == {"producerCount": 1}


def test_a_producer_that_is_refused_is_not_told_of() -> None:
    d = Driver()
    listen(d, "c", "Producer.>")
    assert any(isinstance(effect, Refused) for effect in d.handle(AddProducer(1, TEMP, "1.p", request=5)))
    assert told(d, "c") == []


def test_a_wildcard_hears_once_of_what_comes_and_of_what_goes() -> None:
    d = Driver()
    listen(d, "c", ">")
    d.handle(AddProducer(1, "queue://q", "1.p"))
    d.handle(RemoveProducer(1, "1.p"))
    seen = [(type(one), one.gone) for one in told(d, "c")]
    assert seen == [(DestinationAdvisory, False), (ProducerAdvisory, False), (ProducerAdvisory, True)]


def test_consumers_are_counted_and_a_wildcard_listens_too() -> None:
    d = Driver()
    d.subscribe("old", "queue://q")
    listen(d, "c", "Consumer.Queue.q")
    listen(d, "wild", "Consumer.>")
    d.subscribe("new", "queue://q", selector="n = 1")
    d.leave("old")
    assert [one.selector for one in told(d, "c") if isinstance(one, ConsumerAdvisory)] == ["", "n = 1", ""]
    seen = [(one.name, one.count, one.gone) for one in told(d, "c") if isinstance(one, ConsumerAdvisory)]
    assert seen == [("old", 1, False), ("new", 2, False), ("old", 1, True)]
    assert len(told(d, "wild")) == 3


def test_connections_are_told_by_their_client_ids() -> None:
    d = Driver()
    listen(d, "c", "Connection")
    d.handle(Connect(7, "seven", identity="ID:7"))
    d.handle(Disconnect(7))
    seen = [(one.client_id, one.identity, one.gone) for one in told(d, "c") if isinstance(one, ConnectionAdvisory)]
    assert seen == [("seven", "ID:7", False), ("seven", "ID:7", True)]


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_client_id_that_is_in_use_is_refused_to_who_wants_it_alone(exclusive: bool) -> None:
    d = Driver()
    d.handle(Connect(7, "me", identity="ID:7"))
    (answer,) = d.handle(Connect(8, "me", identity="ID:8", exclusive=exclusive, request=5))
    if exclusive:
        assert isinstance(answer, Refused)
        assert answer.code == "client-id-in-use"
        assert "already connected from connection 7" in answer.text
    else:
        assert isinstance(answer, Accepted)
    d.handle(Disconnect(7))
    (answer,) = d.handle(Connect(9, "me", identity="ID:9", exclusive=False, request=6))
    assert isinstance(answer, Accepted)


def test_who_comes_back_takes_its_own_place() -> None:
    d = Driver()
    d.handle(Connect(7, "me", identity="ID:7", exclusive=True))
    d.subscribe("old", "queue://q", connection=7)
    d.send("queue://q")
    effects = d.handle(Connect(8, "me", identity="ID:7", exclusive=True, request=5))
    displaced = next(effect for effect in effects if isinstance(effect, Displaced))
    assert (displaced.connection, "connection 8" in displaced.text) == (7, True)
    assert any(isinstance(effect, Accepted) for effect in effects)
    d.handle(Disconnect(7))
    d.subscribe("new", "queue://q", connection=8)
    assert [one.consumer for one in d.effects if isinstance(one, Dispatch)] == ["old", "new"]


@pytest.mark.parametrize(("asked", "told_of"), [(1000, [7]), (3, []), (-1, [])])
def test_a_window_that_a_policy_changed_is_told(asked: int, told_of: list[int]) -> None:
    d = Driver(BrokerConfig(destinations=[DestinationPolicy(">", queue_prefetch=7)]))
    d.subscribe("c", "queue://q", prefetch=asked)
    assert [effect.prefetch for effect in d.effects if isinstance(effect, Granted)] == told_of


@pytest.mark.parametrize(("first", "then", "got"), [(0, 2, 2), (1, 3, 3), (3, 1, 3), (2, 0, 2)])
def test_a_window_changes_its_size(first: int, then: int, got: int) -> None:
    """What a failover client does: it comes back with prefetch 0 and asks for its window when it is ready."""
    d = Driver()
    d.subscribe("c", "queue://q", prefetch=first)
    for _ in range(4):
        d.send("queue://q")
    d.handle(Resize(d.connections["c"], "c", then))
    assert sum(isinstance(effect, Dispatch) for effect in d.effects) == got


def resend(d: Driver, number: int, message_id: str, *, persistent: bool = True) -> list[str]:
    """A send that says which one of its producer it is; the kinds of what it caused."""
    message = Message(message_id, "queue://q", b"", persistent=persistent)
    effects = d.handle(Send(1, message, request=9, producer="ID:p", number=number))
    return [type(effect).__name__ for effect in effects]


def test_what_a_producer_repeats_is_accepted_and_thrown_away() -> None:
    d = Driver()
    assert resend(d, 1, "ID:p:1") == ["Accepted"]
    d.subscribe("c", "queue://q")
    d.ack("ID:p:1")
    assert resend(d, 1, "ID:p:1") == ["Logged", "Accepted"]
    assert resend(d, 2, "ID:p:2") == ["Accepted", "Dispatch"]
    assert d.got() == ["ID:p:1", "ID:p:2"]


def test_what_was_refused_has_not_been_taken() -> None:
    d = Driver()
    d.send("queue://q", "ID:p:1")
    assert resend(d, 1, "ID:p:1") == ["Refused"]
    assert resend(d, 1, "ID:p:other") == ["Accepted"]


def test_after_a_restart_it_knows_what_it_still_holds() -> None:
    resends = DuplicateDetection()
    for name in ("ID:p:7", "no id", "ID:p:x", "ID:q:3"):
        resends.recovered(name)
    assert [resends.is_repeated("ID:p", 7), resends.is_repeated("ID:p", 8), resends.is_repeated("ID:q", 3)] == [
        True,
        False,
        True,
    ]
    for number in range(PRODUCERS):
        resends.taken(f"ID:{number}", 1)
    assert not resends.is_repeated("ID:p", 7)  # forgotten: too many others came
