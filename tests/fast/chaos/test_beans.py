"""chaos/brokers/beans.py: every option is seen in the file, and nothing given can break out of it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from brokerproof.chaos.brokers.beans import ActiveMQOptions, PolicyEntry, Redelivery, TimeStamping, broker_xml

AMQ = "{http://activemq.apache.org/schema/core}"
DATA = Path("/run/data")


def _broker(options: ActiveMQOptions) -> ET.Element:
    broker = ET.fromstring(broker_xml(options, DATA, 61616, 61613)).find(f"{AMQ}broker")  # noqa: S314  # our own text
    assert broker is not None
    return broker


def _one(broker: ET.Element, name: str) -> dict[str, str]:
    found = [element.attrib for element in broker.iter(AMQ + name) if element.attrib]
    assert len(found) == 1, name
    return found[0]


def test_the_plain_broker_keeps_messages_in_memory_and_listens_on_loopback_only() -> None:
    broker = _broker(ActiveMQOptions())
    assert broker.attrib["persistent"] == "false"
    assert broker.attrib["schedulerSupport"] == "false"
    assert broker.attrib["dataDirectory"] == "/run/data"
    assert broker.attrib["brokerName"] == "b"
    assert [connector.attrib for connector in broker.iter(f"{AMQ}transportConnector")] == [
        {"name": "openwire", "uri": "tcp://127.0.0.1:61616"},
        {"name": "stomp", "uri": "stomp://127.0.0.1:61613"},
    ]
    assert _one(broker, "managementContext") == {"createConnector": "false"}  # its own would listen everywhere
    assert _one(broker, "policyEntry") == {"queue": ">", "expireMessagesPeriod": "1000"}
    assert _one(broker, "sharedDeadLetterStrategy") == {"processNonPersistent": "true"}
    assert not list(broker.iter(f"{AMQ}kahaDB"))
    assert not list(broker.iter(f"{AMQ}timeStampingBrokerPlugin"))
    assert len(list(broker.iter(f"{AMQ}statisticsBrokerPlugin"))) == 1


def test_each_option_changes_its_place_in_the_file() -> None:
    broker = _broker(
        ActiveMQOptions(
            store="kahadb",
            scheduler=True,
            timestamping=TimeStamping(True, 60_000, 7, process_network_messages=True),
            memory_limit_bytes=1_048_576,
            store_limit_bytes=2_000_000,
            temp_limit_bytes=3_000_000,
            stomp_parameters={"transport.hbGracePeriodMultiplier": "1.5", "a": "b"},
            openwire_parameters={"wireFormat.maxInactivityDuration": "2000"},
        )
    )
    assert broker.attrib["persistent"] == "true"
    assert broker.attrib["schedulerSupport"] == "true"
    assert _one(broker, "kahaDB")["directory"] == "/run/data/kahadb"
    assert _one(broker, "timeStampingBrokerPlugin") == {
        "futureOnly": "true",
        "processNetworkMessages": "true",
        "ttlCeiling": "60000",
        "zeroExpirationOverride": "7",
    }
    assert _one(broker, "memoryUsage") == {"limit": "1048576"}
    assert _one(broker, "storeUsage") == {"limit": "2000000"}
    assert _one(broker, "tempUsage") == {"limit": "3000000"}
    uris = [connector.attrib["uri"] for connector in broker.iter(f"{AMQ}transportConnector")]
    assert uris == [
        "tcp://127.0.0.1:61616?wireFormat.maxInactivityDuration=2000",
        "stomp://127.0.0.1:61613?transport.hbGracePeriodMultiplier=1.5&a=b",
    ]


def test_policies_of_queues_and_topics() -> None:
    policies = (
        PolicyEntry("orders.>", expire_period_ms=None, memory_limit_bytes=5, attributes={"queuePrefetch": "1"}),
        PolicyEntry("news", kind="topic", process_non_persistent=False),
    )
    broker = _broker(ActiveMQOptions(policies=policies))
    assert [policy.attrib for policy in broker.iter(f"{AMQ}policyEntry")] == [
        {"queue": "orders.>", "memoryLimit": "5", "queuePrefetch": "1"},
        {"topic": "news", "expireMessagesPeriod": "1000"},
    ]
    strategies = [strategy.attrib for strategy in broker.iter(f"{AMQ}sharedDeadLetterStrategy")]
    assert [strategy["processNonPersistent"] for strategy in strategies] == ["true", "false"]


def test_nothing_given_breaks_out_of_its_attribute() -> None:
    nasty = "\"'<&>]]>"
    broker = _broker(ActiveMQOptions(policies=(PolicyEntry(nasty),)))
    assert _one(broker, "policyEntry")["queue"] == nasty


def test_redelivery_by_the_broker_is_one_plugin_for_all_queues() -> None:
    assert not list(_broker(ActiveMQOptions()).iter(f"{AMQ}redeliveryPlugin"))
    slow = Redelivery(maximum=3, initial_ms=1100, pause_ms=1200, multiplier=2, longest_ms=2500, dead_letter=False)
    broker = _broker(
        ActiveMQOptions(policies=(PolicyEntry("q0.>", redelivery=slow), PolicyEntry(kind="topic", redelivery=slow)))
    )
    assert _one(broker, "redeliveryPlugin") == {"sendToDlqIfMaxRetriesExceeded": "false"}
    assert _one(broker, "redeliveryPolicy") == {
        "queue": "q0.>",
        "maximumRedeliveries": "3",
        "initialRedeliveryDelay": "1100",
        "redeliveryDelay": "1200",
        "maximumRedeliveryDelay": "2500",
        "useExponentialBackOff": "true",
        "backOffMultiplier": "2",
    }
