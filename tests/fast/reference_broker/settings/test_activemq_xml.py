"""ActiveMQ's XML read as our configuration: what is translated, noted, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.chaos.brokers.beans import ActiveMQOptions, PolicyEntry, TimeStamping, broker_xml
from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.settings.activemq_xml import translate
from brokerproof.reference_broker.settings.configuration import read_settings


def within(text: str) -> str:
    """A document with this inside its broker."""
    return f'<broker xmlns="http://activemq.apache.org/schema/core">{text}</broker>'


CONNECTOR = "<transportConnectors><transportConnector {}/></transportConnectors>"
REDELIVERY = (
    "<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap>{}</redeliveryPolicyMap>"
    "</redeliveryPolicyMap></redeliveryPlugin></plugins>"
)
AUTHORIZATION = (
    "<plugins><authorizationPlugin><map><authorizationMap>{}</authorizationMap></map></authorizationPlugin></plugins>"
)
POLICY = "<destinationPolicy><policyMap><policyEntries>{}</policyEntries></policyMap></destinationPolicy>"


def test_the_file_that_we_write_for_the_real_broker_is_understood(tmp_path: Path) -> None:
    options = ActiveMQOptions(
        timestamping=TimeStamping(future_only=True, ttl_ceiling_ms=5, zero_expiration_override_ms=6),
        memory_limit_bytes=1024 * 1024,
        policies=(PolicyEntry("A.>", "queue", 700, 4096), PolicyEntry(">", "topic", 900)),
    )
    path = tmp_path / "activemq.xml"
    path.write_text(broker_xml(options, tmp_path / "data", 61616, 61613))
    settings = read_settings(path)
    broker = settings.broker
    ports = [(listening.protocol, listening.port) for listening in settings.listen_addresses]
    assert ports == [("openwire", 61616), ("stomp", 61613)]
    assert broker.memory_limit_bytes == 1024 * 1024
    assert broker.timestamping is not None
    assert (broker.timestamping.future_only, broker.timestamping.ttl_ceiling_ms) == (True, 5)
    found = [(entry.match, entry.expire_period_ms, entry.memory_limit_bytes) for entry in broker.destinations]
    assert found == [("queue://A.>", 700, 4096), ("topic://>", 900, 0)]


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("1mb", 1048576), ("64 MB", 67108864), ("5", 5), ("2k", 2048), ("1 gb", 1 << 30)]
)
def test_sizes(text: str, size_bytes: int) -> None:
    memory = f'<memoryUsage><memoryUsage limit="{text}"/></memoryUsage>'
    assert translate(within(f"<systemUsage><systemUsage>{memory}</systemUsage></systemUsage>")).broker == {
        "memory_limit_bytes": size_bytes
    }


def test_what_has_no_effect_is_noted() -> None:
    found = translate('<broker useJmx="false"><managementContext/></broker>')
    assert found.notes == ["useJmx has no effect here", "managementContext has no effect here"]


def test_a_broker_that_is_not_persistent_stores_nothing() -> None:
    store = '<persistenceAdapter><kahaDB directory="d" journalMaxFileLength="8mb"/></persistenceAdapter>'
    assert translate(f"<broker>{store}</broker>").data["storage"] == {"path": "d"}
    assert "storage" not in translate(f'<broker persistent="false">{store}</broker>').data


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<broker", ["is not XML"]),
        (within("<persistenceAdapter><jdbcPersistenceAdapter/></persistenceAdapter>"), ["jdbcPersistenceAdapter"]),
        (
            within(
                "<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap><redeliveryPolicyEntries>"
                '<redeliveryPolicy queue="q"/></redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap>'
                "</redeliveryPlugin></plugins>"
            ),
            ["queue://q", "needs a policyEntry of the same name"],
        ),
        ("<beans/>", ["0 broker elements"]),
        ("<!DOCTYPE a><broker/>", ["document type"]),
        ('<broker brokerNam="x"/>', ["'brokerNam'", "did you mean brokerName"]),
        ('<broker brokerName="${x}"/>', ["placeholder"]),
        (within("<pluginz/>"), ["'pluginz'", "did you mean plugins"]),
        (within("<plugins><loggingBrokerPlugin/></plugins>"), ["loggingBrokerPlugin", "no counterpart"]),
        (within(POLICY.format('<policyEntry memoryLimit="1"/>')), ["names 0 of queue, topic"]),
        (within(POLICY.format('<policyEntry queue="a" topic="b"/>')), ["names 2 of"]),
        (within(POLICY.format('<policyEntry queue="a" memoryLimit="1 tb"/>')), ["'1 tb'", "such as 64 mb"]),
        (within(POLICY.format('<policyEntry queue="a" expireMessagesPeriod="1k"/>')), ["'1k'", "a whole number"]),
        (within('<plugins><timeStampingBrokerPlugin futureOnly="yes"/></plugins>'), ["'yes'", "true or false"]),
    ],
)
def test_nothing_is_ignored(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        translate(text)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give the path of an XML file"):
        read_settings(tmp_path / "activemq.xml")


def test_what_speaks_our_protocols_is_listened_on_and_the_rest_is_noted() -> None:
    uris = ("stomp://a", "nio+ssl://b:1", "amqp://c", "auto://d")
    connectors = "".join(f'<transportConnector uri="{uri}"/>' for uri in uris)
    found = translate(within(f"<transportConnectors>{connectors}</transportConnectors>"))
    assert found.data["server"] == {"connectors": ["stomp://a", "nio+ssl://b:1", "auto://d"]}
    assert found.notes == ["transportConnector amqp://c is not served"]


def test_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_bytes('<?xml version="1.0" encoding="ISO-8859-1"?><broker brokerName="Müller"/>'.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"activemq.xml is not UTF-8 \(.*\); save it as UTF-8"):
        read_settings(path)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("<destinationPolicy><policyMap><policyEntrys/></policyMap></destinationPolicy>", "policyEntrys"),
        (POLICY.format('<policyEntri queue="A"/>'), "policyEntri"),
        ("<destinationPolicy><policyMap><defaultEntry/></policyMap></destinationPolicy>", "defaultEntry"),
        (
            "<systemUsage><systemUsage><memoryUsage><memoryUsag/></memoryUsage></systemUsage></systemUsage>",
            "memoryUsag",
        ),
        ("<transportConnectors><transportConector uri='tcp://h:1'/></transportConnectors>", "transportConector"),
        ("<destinationInterceptors><mirroredQueue/></destinationInterceptors>", "mirroredQueue"),
        (REDELIVERY.format("<defaultEntry/>"), "defaultEntry"),
        (CONNECTOR.format("uri='tcp://h:1' disableAsyncDispatch='true'"), "disableAsyncDispatch"),
        (AUTHORIZATION.format("<authorizationEntri/>"), "authorizationEntri"),
    ],
)
def test_nothing_is_passed_over_further_down(text: str, word: str) -> None:
    with pytest.raises(ConfigError, match=f"{word}.*has no counterpart here; "):
        translate(within(text))


def test_a_connector_says_where() -> None:
    with pytest.raises(ConfigError, match="transportConnector 'openwire' has no uri; give one such as"):
        translate(within(CONNECTOR.format("name='openwire'")))
