"""Presets of shipped limits, and what a file may change of them."""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.core.config import ConfigError
from brokerproof.reference_broker.core.matching import policy_for
from brokerproof.reference_broker.settings.configuration import broker_config
from brokerproof.reference_broker.settings.presets import PRESETS


def limit_of(data: dict[str, object], destination: str) -> int:
    return policy_for(destination, broker_config(data).destinations).memory_limit_bytes


@pytest.mark.parametrize(("name", "topics"), [("activemq-5.4", 1024 * 1024), ("activemq-5.8", 0)])
def test_the_limit_of_each_queue(name: str, topics: int) -> None:
    data: dict[str, object] = {"preset": name}
    assert (limit_of(data, "queue://a"), limit_of(data, "topic://a")) == (1024 * 1024, topics)
    config = broker_config(data)
    assert (config.memory_limit_bytes, config.generation["memory"]) == (64 * 1024 * 1024, "G0")


def test_no_limits_of_queues_and_a_share_of_the_heap() -> None:
    config = broker_config({"preset": "activemq-5.9"})
    assert config.memory_limit_bytes == 751_619_277
    assert (config.store_limit_bytes, config.temp_limit_bytes) == (100 * 1024**3, 50 * 1024**3)
    assert (config.generation["memory"], config.generation["purge"]) == ("G1", "zeroed")
    assert policy_for("topic://t", config.destinations).pending_message_limit == 1000
    assert policy_for("queue://q", config.destinations).memory_limit_bytes == 0


def test_the_file_wins() -> None:
    data: dict[str, object] = {
        "preset": "activemq-5.4",
        "memory_limit_bytes": 7,
        "generation": {"expiry": "documented"},
        "destinations": [{"match": "queue://>", "memory_limit_bytes": 5}, {"match": "queue://b"}],
    }
    config = broker_config(data)
    assert config.memory_limit_bytes == 7
    assert (config.generation["memory"], config.generation["expiry"]) == ("G0", "documented")
    assert (limit_of(data, "queue://a"), limit_of(data, "queue://b")) == (5, 0)
    assert broker_config({"preset": "activemq-5.4", "generation": {"memory": "fair"}}).generation["memory"] == "fair"


@pytest.mark.parametrize(("name", "remedy"), [("activemq-5.5", "did you mean"), ("x", "one of activemq-5.4"), (7, "7")])
def test_an_unknown_preset(name: object, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        broker_config({"preset": name})


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_configuration(name: str) -> None:
    broker_config({"preset": name})
