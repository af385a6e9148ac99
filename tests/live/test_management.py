"""One probe, two brokers: a real ActiveMQ and the reference broker are read alike, attribute by attribute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerproof.chaos.brokers.jolokia import Jolokia, JolokiaFailed
from brokerproof.chaos.processes import Supervisor
from brokerproof.conformance.brokers import managed
from brokerproof.conformance.cli import main
from brokerproof.conformance.experiment.exits import OK, SUITE
from tests.live.managed import Line, Managed, activemq, reference

pytestmark = pytest.mark.live
BROKER = "org.apache.activemq:type=Broker,brokerName=b"
QUEUE = f"{BROKER},destinationType=Queue,destinationName=Q"
MOVE = "moveMatchingMessagesTo(java.lang.String,java.lang.String)"
TOPIC = f"{BROKER},destinationType=Topic,destinationName=T"

#: Kind of bean -> what ActiveMQ's has and ours lacks: it has no counterpart here, or nobody counts it.
LACKING: dict[str, set[str]] = {
    "broker": {
        "AverageMessageSize",
        "DataDirectory",
        "DynamicDestinationProducers",
        "JMSJobScheduler",
        "JobSchedulerStoreLimit",
        "JobSchedulerStorePercentUsage",
        "MaxMessageSize",
        "MinMessageSize",
        "QueueProducers",
        "TemporaryQueueProducers",
        "TemporaryTopicProducers",
        "TopicProducers",
        "TotalConnectionsCount",
        "TotalProducerCount",
        "VMURL",
    },
    "destination": {
        "AverageBlockedTime",
        "AverageEnqueueTime",
        "AverageMessageSize",
        "BlockedProducerWarningInterval",
        "DLQ",
        "MaxAuditDepth",
        "MaxEnqueueTime",
        "MaxMessageSize",
        "MaxProducersToAudit",
        "MessageGroupType",
        "MinEnqueueTime",
        "MinMessageSize",
        "ProducerCount",
        "SendDuplicateFromStoreToDLQ",
        "StoreMessageSize",
        "TempUsageLimit",
        "TotalBlockedTime",
    },
    "consumer": {"ConsumedCount", "DequeueCounter", "DiscardedCount", "DispatchedCounter", "EnqueueCounter"},
}
#: What must be equal after the same messages; everything else must have the same shape.
EQUAL: dict[str, set[str]] = {
    "broker": {"BrokerName", "CurrentConnectionsCount", "MemoryLimit", "MemoryPercentUsage", "Slave"},
    "destination": {
        "BlockedSends",
        "ConsumerCount",
        "CursorFull",
        "CursorPercentUsage",
        "DequeueCount",
        "DispatchCount",
        "DuplicateFromStoreCount",
        "EnqueueCount",
        "ExpiredCount",
        "ForwardCount",
        "InFlightCount",
        "MaxPageSize",
        "MemoryLimit",
        "MemoryPercentUsage",
        "MemoryUsagePortion",
        "Name",
        "Options",
        "Paused",
        "PrioritizedMessages",
        "ProducerFlowControl",
        "QueueSize",
        "SlowConsumerStrategy",
        "UseCache",
    },
    "consumer": {
        "Active",
        "ClientId",
        "DestinationName",
        "DestinationQueue",
        "DestinationTemporary",
        "DestinationTopic",
        "DispatchAsync",
        "DispatchedQueueSize",
        "Durable",
        "Exclusive",
        "MaximumPendingMessageLimit",
        "MessageCountAwaitingAcknowledge",
        "Network",
        "NoLocal",
        "PendingQueueSize",
        "PrefetchSize",
        "Priority",
        "Retroactive",
        "Selector",
        "SessionId",
        "SlowConsumer",
        "SubscriptionName",
        "UserName",
    },
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Managed, Managed]]:
    """Both, after the same messages."""
    with Supervisor(tmp_path_factory.mktemp("managed")) as supervisor:
        pair = activemq(supervisor), reference(supervisor)
        lines = [line for broker in pair for line in use(broker)]
        for broker in pair:
            settle(lambda broker=broker: broker.jolokia.queue_counters("Q")["in_flight"] == 1)
            settle(lambda broker=broker: broker.jolokia.read(TOPIC, "DispatchCount") == 2)
        yield pair
        for line in lines:
            line.__exit__()


def settle(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def use(broker: Managed) -> list[Line]:
    """Three messages of which one is in flight, a topic with a plain and a durable subscriber, a queue without any."""
    one, two = Line(broker, "cid1"), Line(broker, "cid2")
    one.ask("SUBSCRIBE", destination="/queue/Q", id="1", ack="client", **{"activemq.prefetchSize": "1"})
    one.ask("SUBSCRIBE", destination="/topic/T", id="2", ack="auto")
    one.ask("SUBSCRIBE", destination="/topic/T", id="3", ack="client", **{"activemq.subscriptionName": "dur"})
    for number in range(3):
        two.ask("SEND", f"body{number}", destination="/queue/Q", persistent="true")
    two.ask("SEND", "p", destination="/queue/P", priority="7", type="ty", kind="a", **{"reply-to": "/queue/R"})
    two.ask("SEND", "t", destination="/topic/T")
    return [one, two]


def shape(value: Any) -> Any:
    """What kind of value it is; a number may be whole by accident."""
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, list):
        return [shape(value[0])] if value else "list"
    if isinstance(value, dict):
        return {"objectName"} if "objectName" in value else "map"
    return type(value).__name__


def compare(kind: str, theirs: dict[str, Any], ours: dict[str, Any], own: set[str]) -> None:
    """``own``: what ours shows beyond ActiveMQ's."""
    assert set(theirs) - set(ours) == LACKING[kind] & set(theirs)
    assert set(ours) - set(theirs) == own
    common = set(theirs) & set(ours)
    assert {name: theirs[name] for name in EQUAL[kind] & common} == {name: ours[name] for name in EQUAL[kind] & common}
    for name in common - {"MessageGroups", "UserName", "Selector"}:
        # A list may be empty on one side: ActiveMQ has its advisory topics at once.
        if not (theirs[name] == [] or ours[name] == []):
            assert shape(theirs[name]) == shape(ours[name]), name


def whole(broker: Managed, bean: str) -> dict[str, Any]:
    found: dict[str, Any] = broker.jolokia.read_all(bean)
    return found


def test_one_probe_reads_both_brokers_alike(brokers: tuple[Managed, Managed]) -> None:
    """The probe of the suite: same names, same figures, what does not exist yet is zero in both."""
    theirs, ours = (broker.jolokia for broker in brokers)
    for probe in (theirs, ours):
        assert probe.find_broker() == "b"
        assert probe.clock().agrees_with(0)
    both = [managed.counters(probe, "queue://Q") or {} for probe in (theirs, ours)]
    assert both[0].keys() == both[1].keys()
    same = both[0].keys() - {"memory_bytes"}
    assert {name: both[0][name] for name in same} == {name: both[1][name] for name in same}
    assert managed.counters(theirs, "queue://NEW") == managed.counters(ours, "queue://NEW")
    assert managed.counters(theirs, None) == managed.counters(ours, None)


@pytest.mark.parametrize(
    ("kind", "bean", "own"),
    [
        ("broker", BROKER, {"Generation"}),
        (
            "destination",
            QUEUE,
            {"AcknowledgedCount", "MaxBrowsePageSize", "ScheduledMessageCount", "WastedDispatchCount"},
        ),
        ("destination", TOPIC, {"AcknowledgedCount", "ScheduledMessageCount", "WastedDispatchCount"}),
    ],
)
def test_attributes_agree(brokers: tuple[Managed, Managed], kind: str, bean: str, own: set[str]) -> None:
    compare(kind, whole(brokers[0], bean), whole(brokers[1], bean), own)


@pytest.mark.parametrize(
    "pattern",
    [
        f"{QUEUE},endpoint=Consumer,*",
        f"{TOPIC},endpoint=Consumer,clientId=cid1,consumerId=ID*",
        f"{TOPIC},endpoint=Consumer,clientId=cid1,consumerId=Durable(cid1_dur)*",
    ],
)
def test_consumers_agree(brokers: tuple[Managed, Managed], pattern: str) -> None:
    (theirs,), (ours,) = (list(broker.jolokia.read_pattern(pattern, []).values()) for broker in brokers)
    compare("consumer", theirs, ours, set())


def test_names_agree(brokers: tuple[Managed, Managed]) -> None:
    """Whatever both have is called the same; what is called by a client is recognised by its pattern."""
    fixed = [
        {name for name in broker.jolokia.search("org.apache.activemq:*") if "endpoint" not in name}
        for broker in brokers
    ]
    ours = {name for name in fixed[1] if "remoteAddress" not in name}
    assert ours <= fixed[0]
    assert {BROKER, QUEUE, TOPIC, f"{BROKER},service=Health"} <= ours


@pytest.mark.parametrize(
    "row",
    [
        {"type": "read", "mbean": BROKER, "attribute": "Nope"},
        {"type": "read", "mbean": f"{BROKER},destinationType=Queue,destinationName=NONE", "attribute": "QueueSize"},
        {"type": "read", "mbean": f"{BROKER},destinationType=Queue,destinationName=NONE*", "attribute": "QueueSize"},
        {"type": "read", "mbean": f"{BROKER},destinationType=Queue,destinationName=*", "attribute": "Nope"},
        {"type": "list", "path": "org.apache.activemq/type=Broker,brokerName=none"},
        {"type": "exec", "mbean": BROKER, "operation": "nope"},
        {"type": "exec", "mbean": BROKER, "operation": "removeQueue", "arguments": [""]},
        {
            "type": "exec",
            "mbean": QUEUE,
            "operation": MOVE,
            "arguments": ["kind = ", "N"],
        },
        {"type": "write", "mbean": BROKER, "attribute": "BrokerName", "value": "x"},
    ],
)
def test_errors_agree(brokers: tuple[Managed, Managed], row: dict[str, Any]) -> None:
    theirs, ours = (broker.jolokia._post([row])[0] for broker in brokers)
    assert set(ours) <= set(theirs)
    assert (ours["status"], ours["error_type"]) == (theirs["status"], theirs["error_type"])
    assert set(ours["request"]) == set(theirs["request"])


@pytest.mark.parametrize(
    "row",
    [
        {"type": "fly"},
        {"mbean": BROKER},
        {"type": "read", "mbean": "garbage"},
        {"type": "exec", "mbean": QUEUE},
        {"type": "write", "mbean": BROKER, "attribute": "MemoryLimit"},
    ],
)
def test_what_is_no_request_agrees(brokers: tuple[Managed, Managed], row: dict[str, Any]) -> None:
    for broker in brokers:
        with pytest.raises(JolokiaFailed, match="answers 400"):
            broker.jolokia._post([row])


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ({"type": "READ", "mbean": BROKER, "attribute": "BrokerName"}, "b"),
        (
            {
                "type": "read",
                "mbean": BROKER,
                "attribute": ["BrokerName", "Nope"],
                "config": {"ignoreErrors": "true"},
            },
            {
                "BrokerName": "b",
                "Nope": {
                    "error_type": "javax.management.AttributeNotFoundException",
                    "error": "No such attribute: Nope",
                },
            },
        ),
    ],
)
def test_what_examples_of_jolokia_write_agrees(
    brokers: tuple[Managed, Managed], row: dict[str, Any], value: Any
) -> None:
    for broker in brokers:
        (answer,) = broker.jolokia._post([row])
        assert (answer["status"], answer["request"]["type"]) == (200, "read")
        found = answer["value"]
        if isinstance(found, dict):
            # The agent marks errors in more ways than one.
            found["Nope"] = {name: found["Nope"][name] for name in ("error_type", "error")}
        assert found == value


def test_operations_agree(brokers: tuple[Managed, Managed]) -> None:
    dead_letters = []
    for broker in brokers:
        jolokia = broker.jolokia
        (dead_letter,) = jolokia.execute(jolokia.queue_bean("P"), "browse()")
        dead_letters.append(dead_letter)
        assert managed.operate(jolokia, "move", "queue://P", "queue://M").count == 1
        assert jolokia.queue_counters("M")["size"] == 1
        assert managed.operate(jolokia, "reset", "queue://M", "").refusal == ""
        assert (jolokia.queue_counters("M")["size"], jolokia.queue_counters("M")["enqueued"]) == (1, 0)
        assert jolokia.execute(jolokia.queue_bean("Q"), "doesCursorHaveSpace()") is True
        assert managed.operate(jolokia, "purge", "queue://M", "").refusal == ""
        assert jolokia.queue_counters("M")["size"] == 0
        assert jolokia.execute(jolokia.broker_bean, "removeQueue(java.lang.String)", "M") is None
        assert jolokia.read(jolokia.queue_bean("M"), "QueueSize") is None
    theirs, ours = dead_letters
    assert set(theirs) - set(ours) == {"BrokerPath", "JMSXUserID"}
    assert set(ours) <= set(theirs)
    same = ["JMSDeliveryMode", "JMSDestination", "JMSPriority", "JMSType", "JMSReplyTo", "StringProperties", "Text"]
    assert [theirs[name] for name in same] == [ours[name] for name in same]


USERS = """
[[security.users]]
name = "operator"
password = "se:cret"
groups = ["admins"]
[[security.users]]
name = "app"
password = "other"
groups = ["apps"]
"""


def test_with_users_the_port_wants_one_of_the_management_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "users.toml"
    config.write_text(USERS, encoding="utf-8")
    with Supervisor(tmp_path) as supervisor:
        broker = reference(supervisor, "--config", str(config))
        port = broker.jolokia.port
        for credentials in (None, ("operator", "wrong"), ("app", "other")):
            with pytest.raises(JolokiaFailed, match="answers 401"):
                Jolokia(port, credentials=credentials).version()
        assert Jolokia(port, credentials=("operator", "se:cret")).find_broker() == "b"
        assert main(["diagnose", "--broker", f"http://operator:se%3Acret@127.0.0.1:{port}"]) == OK
        assert main(["diagnose", "--broker", broker.url]) == SUITE
        monkeypatch.setenv("BROKERPROOF_USER", "operator")
        monkeypatch.setenv("BROKERPROOF_PASSWORD", "se:cret")
        assert main(["diagnose", "--broker", broker.url]) == OK
        assert main(["clocks", "--broker", f"stomp://127.0.0.1:{broker.stomp_port}"]) == OK
        assert main(["clocks", "--broker", f"tcp://127.0.0.1:{broker.stomp_port}"]) == OK
    assert "cret" not in "".join(capsys.readouterr())
