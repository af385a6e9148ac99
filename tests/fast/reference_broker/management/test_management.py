"""The Jolokia-compatible endpoint without its sockets: what beans show, what operations do, how it fails.

Shapes are a real agent's (2.6.0 on 5.17.2); tests/live/test_management.py compares them with a running one.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.management.object_names import BadNameError, ObjectName, ObjectNamePattern, encoded
from brokerproof.reference_broker.management.site import Response
from brokerproof.reference_broker.security.identity import Identity
from tests.fast.reference_broker.management.manager import BROKER, Manager, queue
from tests.fast.reference_broker.node.wire_pair import Pair
from tests.tools import examples


def filled(count: int = 3) -> Manager:
    """``count`` messages on queue://q, one of them in flight to a STOMP consumer."""
    pair = Pair()
    client = pair.stomp(client_id="cid")
    for number in range(count):
        client.send("queue://q", b"%d" % number, properties={"kind": "ab"[number % 2]})
    client.subscribe("c", "queue://q", ack="client", prefetch=1)
    pair.run()
    return Manager(pair)


def test_one_attribute_several_and_all() -> None:
    manager = filled()
    asked = {"type": "read", "mbean": BROKER + queue(), "attribute": "QueueSize"}
    assert manager.post(asked) == {
        "request": asked,
        "value": 3,
        "status": 200,
        "timestamp": manager.pair.wall_ms // 1000,
    }
    assert manager.value(queue(), ["QueueSize", "InFlightCount"]) == {"QueueSize": 3, "InFlightCount": 1}
    every = manager.value(queue())
    assert every["EnqueueCount"] == 3
    assert every["MemoryUsageByteCount"] == manager.pair.counter("memory_bytes")
    assert manager.read(queue())["request"]["attribute"] == []


@pytest.mark.parametrize(("limit", "percent"), [(0, 0), (8192, 25)])
def test_temporary_files(limit: int, percent: int) -> None:
    pair = Pair(BrokerConfig(temp_limit_bytes=limit, memory_limit_bytes=1))
    pair.stomp().send("queue://q", b"x" * 1024)
    pair.run()
    manager = Manager(pair)
    assert manager.value("", ["TempLimit", "TempPercentUsage", "StoreLimit", "StorePercentUsage"]) == {
        "TempLimit": limit,
        "TempPercentUsage": percent,
        "StoreLimit": 0,
        "StorePercentUsage": 0,
    }
    assert manager.value(queue(), "TempUsagePercentUsage") == percent


def test_a_pattern_reads_every_bean_that_it_matches() -> None:
    manager = filled()
    manager.pair.clients[1].send("queue://other", b"")  # type: ignore[attr-defined]
    manager.pair.run()
    found = manager.value(",destinationType=Queue,*", ["QueueSize", "InFlightCount", "Nonesuch"])
    assert found[BROKER + queue()] == {"QueueSize": 3, "InFlightCount": 1}
    assert found[BROKER + queue("other")] == {"QueueSize": 1, "InFlightCount": 0}
    (consumer,) = [name for name in found if "endpoint" in name] or [None]
    assert consumer is None, "a consumer has none of these attributes"


def test_search_names_and_names_are_found_again() -> None:
    manager = filled()
    names = manager.post({"type": "search", "mbean": "org.apache.activemq:*"})["value"]
    assert BROKER in names
    assert BROKER + queue() in names
    assert [name for name in names if "connectionViewType=clientId" in name]
    for name in names:
        assert manager.read(name.removeprefix(BROKER))["status"] == 200, name
    consumers = manager.post({"type": "search", "mbean": f"{BROKER},endpoint=Consumer,*"})["value"]
    assert len(consumers) == 1
    assert manager.value(consumers[0].removeprefix(BROKER), "MessageCountAwaitingAcknowledge") == 1


def test_the_broker_refers_to_its_beans_by_canonical_names() -> None:
    manager = filled()
    found = manager.value("", ["Queues", "QueueSubscribers", "MemoryPercentUsage", "TotalMessageCount"])
    assert found["Queues"] == [
        {"objectName": "org.apache.activemq:brokerName=b,destinationName=q,destinationType=Queue,type=Broker"}
    ]
    (subscriber,) = found["QueueSubscribers"]
    name = subscriber["objectName"]
    assert manager.post({"type": "read", "mbean": name, "attribute": "PrefetchSize"})["value"] == 1
    path = {"type": "read", "mbean": BROKER, "attribute": "Queues", "path": "0/objectName"}
    assert manager.post(path)["value"] == found["Queues"][0]["objectName"]


def test_consumers_connections_and_durables_are_shown() -> None:
    pair = Pair()
    client = pair.stomp(client_id="cid")
    client.subscribe("d", "topic://t", ack="client", durable="dur")
    pair.run()
    manager = Manager(pair)
    durable = ",destinationType=Topic,destinationName=t,endpoint=Consumer,clientId=cid,consumerId={}"
    name = durable.format("Durable(cid_dur)")
    assert manager.value(name, ["Active", "SubscriptionName"]) == {"Active": True, "SubscriptionName": "dur"}
    connection = ",connector=clientConnectors,connectorName=stomp,connectionViewType=clientId,connectionName=cid"
    assert len(manager.value(connection, "Consumers")) == 1
    client.unsubscribe("d")
    pair.run()
    assert manager.value(name, "Active") is False
    assert manager.value("", "DurableTopicSubscribers") == []
    assert len(manager.value("", "InactiveDurableTopicSubscribers")) == 1


@pytest.mark.parametrize(
    ("request_", "status", "kind", "text"),
    [
        ({"mbean": BROKER + queue("none"), "attribute": "A"}, 404, "InstanceNotFoundException", "destinationName=none"),
        ({"mbean": BROKER, "attribute": "Nope"}, 404, "AttributeNotFoundException", "No such attribute: Nope"),
        ({"mbean": BROKER, "attribute": ["BrokerName", "Nope"]}, 404, "AttributeNotFoundException", "Nope"),
        ({"mbean": f"{BROKER},destinationName=x*"}, 404, "InstanceNotFoundException", "No MBean with pattern"),
        (
            {"mbean": f"{BROKER},destinationType=*,*", "attribute": "Nope"},
            404,
            "AttributeNotFound",
            "No attribute found",
        ),
        ({"type": "list", "path": "a.domain/x=y"}, 404, "InstanceNotFoundException", "a.domain:x=y"),
        ({"type": "list", "path": "org.apache.activemq/type=Broker,brokerName=z/attr"}, 404, "InstanceNotF", "Name=z"),
        (
            {"type": "exec", "mbean": BROKER, "operation": "removeQueue", "arguments": [None]},
            500,
            "IllegalArgumentException",
            "None is not the name of a queue",
        ),
        (
            {"type": "exec", "mbean": BROKER, "operation": "removeQueue", "arguments": [""]},
            500,
            "IllegalArgumentException",
            "'' is not the name of a queue",
        ),
        (
            {
                "type": "exec",
                "mbean": BROKER + queue(),
                "operation": "moveMatchingMessagesTo(java.lang.String,java.lang.String,int)",
                "arguments": ["", "r", "many"],
            },
            400,
            "IllegalArgumentException",
            "'many' is not a number of messages",
        ),
        (
            {"type": "write", "mbean": BROKER, "attribute": "MemoryLimit", "value": "x"},
            400,
            "Illegal",
            "'x' is not a number",
        ),
        ({"mbean": BROKER, "attribute": "Queues", "path": "7"}, 400, "IllegalArgumentException", "ends at '7'"),
        ({"type": "exec", "mbean": BROKER, "operation": "nope"}, 500, "NoSuchMethodException", "nope"),
        ({"type": "exec", "mbean": BROKER + queue(), "operation": "purge(int)"}, 500, "NoSuchMethodException", ""),
        (
            {"type": "exec", "mbean": BROKER, "operation": "removeQueue", "arguments": ["q"]},
            500,
            "JMSException",
            "destination-in-use: queue://q has 1 consumers; close them first",
        ),
        (
            {
                "type": "exec",
                "mbean": BROKER + queue(),
                "operation": "moveMatchingMessagesTo(java.lang.String,java.lang.String)",
                "arguments": ["kind = ", "r"],
            },
            500,
            "InvalidSelectorException",
            "bad-selector",
        ),
        (
            {
                "type": "exec",
                "mbean": BROKER + queue(),
                "operation": "browse(java.lang.String)",
                "arguments": ["kind = "],
            },
            500,
            "InvalidSelectorException",
            "ends too early",
        ),
        (
            {"type": "write", "mbean": BROKER, "attribute": "BrokerName", "value": "x"},
            404,
            "AttributeNot",
            "BrokerName",
        ),
        ({"type": "write", "mbean": BROKER, "attribute": "MemoryLimit", "value": []}, 400, "IllegalArgument", "[]"),
        ({"type": "write", "mbean": BROKER, "attribute": "MemoryLimit", "value": -1}, 500, "JMSEx", "-1 is negative"),
    ],
)
def test_what_fails_says_why_in_javas_words(request_: dict[str, Any], status: int, kind: str, text: str) -> None:
    answer = filled().post({"type": "read", **request_})
    assert answer["status"] == status
    assert kind in answer["error_type"]
    assert text in answer["error"]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"mbean": BROKER}, "No type given; one of version, search, list, read, exec, write"),
        ([{"type": "version"}, {"type": "fly"}], "No type with name 'fly' exists"),
        ({"type": "read", "mbean": "garbage"}, "'garbage' is not an ObjectName"),
        ({"type": "read", "mbean": BROKER, "attribute": 3}, "attribute = 3 is neither"),
        ({"type": "exec", "mbean": BROKER + queue(), "operation": "browse"}, "() (java.lang.String)"),
        ({"type": "exec", "mbean": BROKER + queue(), "operation": "purge()", "arguments": [1]}, "requires 0"),
        ({"type": "exec", "mbean": BROKER, "operation": "gc", "arguments": "x"}, "arguments = 'x' must be a list"),
        ([{"type": "version"}] * 1001, "at most 1000"),
        ({"type": "exec", "mbean": BROKER}, "an exec needs an operation"),
        ({"type": "write", "mbean": BROKER, "value": 1}, "a write needs an attribute and a value"),
        ({"type": "write", "mbean": BROKER, "attribute": "MemoryLimit"}, "a write needs an attribute and a value"),
        (7, "send one request"),
    ],
)
def test_what_is_no_request_fails_as_a_whole(request_: object, text: str) -> None:
    page = filled().post(request_)
    assert isinstance(page, Response)
    assert page.status == 400
    assert text in page.body.decode()


def test_what_jolokia_takes_alike_is_taken_alike() -> None:
    """The type in any case, as many examples write it, no arguments as null, and the prober asks for the rest."""
    manager = filled()
    row = {"type": "READ", "mbean": BROKER + queue(), "attribute": ["QueueSize", "Nope"]}
    assert manager.post({**row, "attribute": "QueueSize"})["value"] == 3
    assert manager.post({**row, "attribute": "QueueSize"})["request"]["type"] == "read"
    cursor = {"type": "EXEC", "mbean": BROKER + queue(), "operation": "cursorSize()", "arguments": None}
    assert manager.post(cursor)["status"] == 200
    for ignores in (True, "true"):
        value = manager.post({**row, "config": {"ignoreErrors": ignores}})["value"]
        assert value["QueueSize"] == 3
        assert value["Nope"]["error_type"] == "javax.management.AttributeNotFoundException"
    for config in ({"ignoreErrors": "false"}, {}, None, "x"):
        assert manager.post({**row, "config": config})["status"] == 404


def test_no_json_and_nested_json_are_answered() -> None:
    manager = Manager()
    for body in (b"{", b"[" * 100_000, b"\xff"):
        assert b"Bad JSON" in manager.page("POST", "/jolokia/", body).body


def test_a_list_is_answered_in_order_and_each_row_may_fail_alone() -> None:
    manager = filled()
    rows = [
        {"type": "version"},
        {"type": "exec", "mbean": BROKER + queue(), "operation": "purge()"},
        {"type": "read", "mbean": BROKER, "attribute": "Nope"},
        {"type": "read", "mbean": BROKER + queue(), "attribute": "QueueSize"},
    ]
    answers = manager.post(rows)
    assert [answer["status"] for answer in answers] == [200, 200, 404, 200]
    assert answers[0]["value"]["info"]["product"] == "brokerproof"
    assert answers[3]["value"] == 0
    assert manager.rests >= len(rows), "between two requests the broker goes on with its work"


def test_an_operator_moves_browses_resets_and_removes() -> None:
    manager = filled()
    shown = manager.execute(queue(), "browse()")["value"]
    assert [one["Text"] for one in shown] == ["0", "1", "2"]
    assert shown[0]["StringProperties"] == {"kind": "a"}
    assert shown[0]["JMSTimestamp"].endswith("Z")
    chosen = manager.execute(queue(), "browse(java.lang.String)", "kind = 'b'")["value"]
    assert [one["Text"] for one in chosen] == ["1"]
    move = "moveMatchingMessagesTo(java.lang.String,java.lang.String)"
    assert manager.execute(queue(), move, "kind = 'b'", "r")["value"] == 1
    one = manager.execute("", "browseQueue(java.lang.String)", "r")["value"][0]
    assert one["OriginalDestination"] == "queue://q"
    assert manager.execute(queue("r"), "moveMessageTo", one["JMSMessageID"], "queue://s")["value"] is True
    assert manager.execute(queue("r"), "moveMessageTo", one["JMSMessageID"], "s")["value"] is False
    assert manager.execute(queue("s"), "resetStatistics()")["value"] is None
    assert manager.value(queue("s"), ["EnqueueCount", "QueueSize"]) == {"EnqueueCount": 0, "QueueSize": 1}
    assert manager.execute("", "removeQueue(java.lang.String)", "s")["value"] is None
    assert manager.read(queue("s"))["status"] == 404
    assert manager.execute("", "removeQueue(java.lang.String)", "s")["value"] is None, "gone is gone, as in ActiveMQ"
    manager.pair.node.broker.check()


def test_a_limit_is_written_and_the_old_one_told() -> None:
    manager = filled()
    row = {"type": "write", "mbean": BROKER + queue(), "attribute": "MemoryLimit", "value": 9000}
    before = manager.value(queue(), "MemoryLimit")
    assert manager.post(row)["value"] == before
    assert manager.value(queue(), ["MemoryLimit", "MemoryPercentUsage"])["MemoryLimit"] == 9000


def test_list_describes_what_can_be_read_and_called() -> None:
    manager = filled()
    whole = manager.post({"type": "list"})["value"]
    assert "java.lang" in whole
    bean = whole["org.apache.activemq"][f"type=Broker,brokerName=b{queue()}"]
    assert bean["attr"]["MemoryLimit"] == {"type": "long", "r": True, "w": True, "rw": True}
    assert bean["op"]["purge"] == {"args": [], "ret": "void"}
    assert len(bean["op"]["moveMatchingMessagesTo"]) == 2
    path = "org.apache.activemq/brokerName=b,destinationName=q,destinationType=Queue,type=Broker/attr/QueueSize"
    assert manager.post({"type": "list", "path": path})["value"]["type"] == "long"
    assert manager.post({"type": "list", "path": "none"})["value"] == {}


def test_a_path_may_name_a_bean_with_a_slash() -> None:
    manager = Manager()
    manager.pair.stomp().send("queue://a/b", b"")
    manager.pair.run()
    path = "org.apache.activemq/brokerName=b,destinationName=a!/b,destinationType=Queue,type=Broker/class"
    assert manager.post({"type": "list", "path": path})["value"].endswith("QueueView")


def test_who_somebody_proved_to_be_and_through_which_connector() -> None:
    pair = Pair()
    pair.node.require_authentication(None)
    client = pair.stomp(connect=False)
    state = pair.node.connection_state(1)
    assert state is not None
    state.address = "ssl://127.0.0.1:5"
    client.connect(client_id="cid")
    pair.run()
    pair.node.admit(1, Identity("alice", frozenset()), "", pair.now())
    pair.run()
    client.subscribe("c", "queue://q", 1)
    pair.run()
    manager = Manager(pair)
    names = manager.post({"type": "search", "mbean": "org.apache.activemq:connectionViewType=*,*"})["value"]
    assert len(names) == 2
    assert all("connectorName=stomp+ssl" in name for name in names)
    for name in (
        *names,
        *manager.post({"type": "search", "mbean": "org.apache.activemq:endpoint=Consumer,*"})["value"],
    ):
        assert manager.post({"type": "read", "mbean": name, "attribute": "UserName"})["value"] == "alice"


def test_blocked_sends_and_the_cursors_gate_are_told_apart() -> None:
    """G3: two sends that find memory full are two blocked sends; the gate of every cursor is shut."""
    pair = Pair(BrokerConfig(memory_limit_bytes=2000, generation={"memory": "G3"}))
    client = pair.stomp()
    for _ in range(3):
        client.send("queue://q", b"x" * 1000, persistent=True, receipt=True)
    pair.run()
    manager = Manager(pair)
    assert manager.value(queue(), "BlockedSends") == 2
    assert manager.execute(queue(), "doesCursorHaveSpace()")["value"] is False
    assert manager.value("", "Generation")["memory"] == "G3"
    assert Manager(filled().pair).execute(queue(), "doesCursorHaveSpace()")["value"] is True


def test_names_are_encoded_and_patterns_match() -> None:
    assert encoded("a:b,c'd\"e?f=g*h") == "a_b_c_d_e&qe;f&amp;g&ast;h"
    name = ObjectName({"type": "Broker", "brokerName": "b", "destinationName": "A.B"})
    assert ObjectNamePattern("org.apache.activemq:destinationName=A.B,brokerName=b,type=Broker").matches(name)
    for pattern in (
        "*:*",
        "org.apache.*:type=Broker,*",
        "org.apache.activemq:type=Bro?er,brokerName=*,destinationName=A*",
    ):
        assert ObjectNamePattern(pattern).matches(name), pattern
    for other in ("java.lang:*", "org.apache.activemq:type=Broker", "org.apache.activemq:type=Broker,brokerName=b,x=*"):
        assert not ObjectNamePattern(other).matches(name), other
    for bad in ("", "a", "a:", "a:b", "a:b=", "a:=c", "a:b=c,b=d"):
        with pytest.raises(BadNameError, match="is not an ObjectName"):
            ObjectNamePattern(bad)


def test_a_destination_whose_name_must_be_encoded_is_found() -> None:
    pair = Pair()
    pair.stomp().send("queue://a:b", b"")
    pair.run()
    assert Manager(pair).value(queue("a_b"), "Name") == "a:b"


_NAMES = [BROKER, BROKER + queue(), f"{BROKER},*", "java.lang:type=Runtime", "", "garbage", "a:b=*"]
_WORDS = st.sampled_from(["version", "read", "search", "list", "exec", "write", "fly"])
_OPERATIONS = [
    "purge()",
    "browse()",
    "browse(java.lang.String)",
    "moveMessageTo",
    "resetStatistics",
    "nope",
    "(",
    "a(b",
]
_ANYTHING = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3)
_REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "type": _WORDS | _ANYTHING,
        "mbean": st.sampled_from(_NAMES) | _ANYTHING,
        "attribute": st.sampled_from(["QueueSize", "MemoryLimit", "Queues", ["QueueSize"]]) | _ANYTHING,
        "operation": st.sampled_from(_OPERATIONS) | _ANYTHING,
        "arguments": st.lists(_ANYTHING, max_size=3) | _ANYTHING,
        "path": st.sampled_from(["0/objectName", "org.apache.activemq/x", "a/b/c"]) | _ANYTHING,
        "value": _ANYTHING,
    },
)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(_REQUESTS, max_size=3) | _ANYTHING)
def test_whatever_is_asked_is_answered_once(requests: object) -> None:
    manager = filled()
    page = manager.page("POST", "/jolokia/", json.dumps(requests).encode())
    assert page.status in {200, 400}
    if page.status == 200:
        json.loads(page.body)
    manager.pair.node.broker.check()
