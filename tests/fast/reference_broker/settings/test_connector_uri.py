"""Connector URIs: ActiveMQ's option names at both ends, and what is refused."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import ConfigError, Monitor
from brokerproof.reference_broker.settings.connector_uri import client_connector, server_connector


def test_the_documented_example() -> None:
    text = "tcp://127.0.0.1:61616?wireFormat.maxInactivityDuration=20000&transport.useKeepAlive=false"
    found = server_connector(text)
    assert (found.protocol, found.host, found.port) == ("openwire", "127.0.0.1", 61616)
    assert (found.monitor.read_ms, found.monitor.use_keep_alive) == (20000, False)


def test_what_is_not_said_is_the_default() -> None:
    found, default = server_connector("stomp://[::1]"), Monitor()
    assert (found.protocol, found.host, found.port, found.use_monitor) == ("stomp", "::1", 61613, True)
    for name in Monitor.__struct_fields__:
        assert getattr(found.monitor, name) == getattr(default, name)


@pytest.mark.parametrize("spelling", ["Inital", "Initial"])
def test_both_spellings_of_the_initial_delay(spelling: str) -> None:
    found = server_connector(f"tcp://h:1?wireFormat.maxInactivityDuration{spelling}Delay=70")
    assert found.monitor.initial_delay_ms == 70


def test_an_ampersand_of_xml_separates_too() -> None:
    text = "tcp://h:1?wireFormat.maxInactivityDuration=5&amp;transport.connectAttemptTimeout=6"
    found = server_connector(text)
    assert (found.monitor.read_ms, found.monitor.connect_timeout_ms) == (5, 6)


def test_a_client_writes_local_options_without_prefix() -> None:
    found = client_connector("tcp://h:1?useKeepAlive=false&connectAttemptTimeout=-1&useInactivityMonitor=false")
    assert (found.monitor.use_keep_alive, found.monitor.connect_timeout_ms, found.use_monitor) == (False, -1, False)


def test_zero_and_below_switch_off_and_are_kept_as_they_are() -> None:
    assert server_connector("tcp://h:1?wireFormat.maxInactivityDuration=-7").monitor.read_ms == -7


def test_frame_sizes() -> None:
    assert server_connector("tcp://h:1?wireFormat.maxFrameSize=104857600").max_frame_bytes == 104857600


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        (
            "tcp://h:1?wireformat.maxInactivityDuration=1",
            ["wireformat", "did you mean wireFormat.maxInactivityDuration"],
        ),
        ("tcp://h:1?useKeepAlive=false", ["belongs to the other end", "transport.useKeepAlive"]),
        ("tcp://h:1?transport.useKeepAlive=no", ["transport.useKeepAlive=no", "true or false"]),
        ("tcp://h:1?wireFormat.maxInactivityDuration=30s", ["=30s", "whole number"]),
        ("tcp://h:1?wireFormat.maxInactivityDuration", ["given once"]),
        ("tcp://h:1?wireFormat.maxFrameSize=1&wireFormat.maxFrameSize=1", ["given once"]),
        ("tcp://h:1?wireFormat.maxInactivityDurationInitalDelay=-1", ["must not be negative"]),
        (
            "tcp://h:1?wireFormat.maxInactivityDurationInitalDelay=1&wireFormat.maxInactivityDurationInitialDelay=2",
            ["contradicts 1"],
        ),
        ("tcp://h:1?nonsense=1", ["'nonsense' is unknown", "one of wireFormat."]),
        ("vm://h:1", ["scheme 'vm'", "stomp"]),
        ("tcp://h:99999", ["not a URI", "scheme://host:port"]),
        ("tcp://", ["must be scheme://host:port"]),
        ("tcp://h:1/path", ["without a path"]),
    ],
)
def test_nothing_is_ignored(uri: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        server_connector(uri)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_client_may_not_switch_its_monitor_off_as_a_server_does() -> None:
    with pytest.raises(ConfigError, match="Invalid connect parameters"):
        client_connector("tcp://h:1?transport.useInactivityMonitor=false")
    with pytest.raises(ConfigError, match="belongs to the other end"):
        client_connector("tcp://h:1?transport.useKeepAlive=false")


def test_timeouts_of_the_socket_and_the_grace_of_heart_beats() -> None:
    options = "transport.soTimeout=500&transport.soWriteTimeout=3000&transport.hbGracePeriodMultiplier=1.5"
    options += "&transport.defaultHeartBeat=500,700"
    monitor = server_connector(f"stomp://h:1?{options}").monitor
    assert (monitor.read_timeout_ms, monitor.write_timeout_ms, monitor.heart_beat_grace) == (500, 3000, 1.5)
    assert monitor.default_heart_beat == "500,700"
    with pytest.raises(ConfigError, match="default_heart_beat 'often' is not two numbers; write such as '5000,5000'"):
        server_connector("stomp://h:1?transport.defaultHeartBeat=often")
    with pytest.raises(ConfigError, match="hbGracePeriodMultiplier=much must be a number"):
        server_connector("stomp://h:1?transport.hbGracePeriodMultiplier=much")


def test_a_server_says_how_it_writes_openwire() -> None:
    plain = server_connector("tcp://h:1")
    assert (plain.tight_encoding, plain.cache_size) == (None, None)
    said = server_connector("tcp://h:1?wireFormat.tightEncodingEnabled=false&wireFormat.cacheSize=200")
    assert (said.tight_encoding, said.cache_size) == (False, 200)
    assert server_connector("tcp://h:1?wireFormat.cacheEnabled=false").cache_size == 0
    with pytest.raises(ConfigError, match=r"cacheSize=50 must be 101 to 16383; cacheEnabled=false is none"):
        server_connector("tcp://h:1?wireFormat.cacheSize=50")
