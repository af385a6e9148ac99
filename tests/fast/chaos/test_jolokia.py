"""chaos/brokers/jolokia.py: what an answer means. The texts are a real agent's answers (2.6.0 on 5.17.2)."""

from __future__ import annotations

from typing import Any

import pytest

from brokerproof.chaos.brokers import jolokia
from brokerproof.chaos.brokers.jolokia import Jolokia, JolokiaFailed

NO_BEAN: dict[str, Any] = {
    "error_type": "javax.management.InstanceNotFoundException",
    "error": 'javax.management.InstanceNotFoundException : No MBean with ObjectName "..." is registered',
    "status": 404,
}
NO_ATTRIBUTE: dict[str, Any] = {
    "error_type": "javax.management.AttributeNotFoundException",
    "error": "javax.management.AttributeNotFoundException : No such attribute: Nonesuch",
    "status": 404,
}


def _value(value: object) -> dict[str, Any]:
    return {"value": value, "status": 200, "timestamp": 1795232276}


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> tuple[Jolokia, list[list[dict[str, Any]]]]:
    """A reader whose transport gives prepared answers, and those answers (one list per request)."""
    answers: list[list[dict[str, Any]]] = []
    reader = Jolokia(1)
    monkeypatch.setattr(reader, "_post", lambda _: answers.pop(0))
    return reader, answers


def test_a_queue_that_does_not_exist_yet_has_counted_nothing(agent: tuple[Jolokia, list[Any]]) -> None:
    reader, answers = agent
    answers.append([NO_BEAN] * len(jolokia.QUEUE_COUNTERS))
    assert reader.queue_counters("Q") == dict.fromkeys(
        ("size", "in_flight", "enqueued", "dequeued", "dispatched", "expired"), 0
    )


def test_a_counter_that_the_release_lacks_is_absent_not_zero(agent: tuple[Jolokia, list[Any]]) -> None:
    reader, answers = agent
    rows = [_value(index + 1) for index in range(len(jolokia.QUEUE_COUNTERS))]
    rows[-1] = NO_ATTRIBUTE  # BlockedSends on 5.8.0
    answers.append(rows)
    counters = reader.queue_counters("Q")
    assert counters["size"] == 1
    assert "blocked_sends" not in counters
    assert len(counters) == len(jolokia.QUEUE_COUNTERS) - 1


def test_a_queue_that_comes_into_being_while_it_is_read_is_read_again(agent: tuple[Jolokia, list[Any]]) -> None:
    reader, answers = agent
    whole = [_value(index + 1) for index in range(len(jolokia.QUEUE_COUNTERS))]
    answers += [[NO_BEAN, *whole[1:]], whole]
    assert reader.queue_counters("Q")["size"] == 1
    answers += [[NO_BEAN, *whole[1:]]] * 9
    with pytest.raises(JolokiaFailed, match="came and went"):
        reader.queue_counters("Q")


def test_one_attribute_is_a_value_none_or_an_error(agent: tuple[Jolokia, list[Any]]) -> None:
    reader, answers = agent
    answers += [[_value("5.17.2")], [NO_BEAN], [NO_ATTRIBUTE]]
    assert reader.version() == "5.17.2"
    assert reader.read("bean", "A") is None
    with pytest.raises(JolokiaFailed, match="No such attribute: Nonesuch"):
        reader.read("bean", "Nonesuch")


def test_a_failed_operation_is_an_error(agent: tuple[Jolokia, list[Any]]) -> None:
    reader, answers = agent
    answers.append([NO_BEAN])
    with pytest.raises(JolokiaFailed, match=r"purge\(\)"):
        reader.purge("Q")


def test_the_brokers_clock_is_read_to_the_second(agent: tuple[Jolokia, list[Any]]) -> None:
    reader, answers = agent
    answers.append([_value({})])
    seen = reader.clock()
    assert seen.wall_ms == 1_795_232_276_000
    assert seen.resolution_ms == 1000


def test_nobody_there_is_one_clear_error() -> None:
    from brokerproof.chaos.ports import free_port

    port = free_port()
    with pytest.raises(JolokiaFailed, match=f"port {port}"):
        Jolokia(port).queue_counters("Q")
    with pytest.raises(JolokiaFailed, match=f"port {port}.*; it ended with 137"):
        Jolokia(port, witness=lambda: "it ended with 137").queue_counters("Q")


@pytest.mark.parametrize(
    ("host", "secure", "origin"),
    [
        ("::1", False, "http://[::1]"),
        ("127.0.0.1", False, "http://127.0.0.1"),
        ("broker.example", True, "https://broker.example"),
    ],
)
def test_the_origin_is_a_url_of_that_host(host: str, secure: bool, origin: str) -> None:
    """Otherwise the newest releases, and the reference broker, let nobody in over IPv6."""
    assert Jolokia(8161, host=host, secure=secure)._headers["Origin"] == origin


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>the console</html>", "no Jolokia"),
        (b"\xff\xfe", "no Jolokia"),
        (b"[" * 100_000, "no Jolokia"),
        (b"7", "no Jolokia"),
        (b"[7]", "no Jolokia"),
        (b"[]", "0 answers to 1 requests"),
    ],
)
def test_what_is_no_jolokia_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, body: bytes, said: str) -> None:
    """A web page, or another service, at the address that an operator gave."""
    reader = Jolokia(8161)
    monkeypatch.setattr(reader, "_exchange", lambda _: (body, 200))
    with pytest.raises(JolokiaFailed, match=f"port 8161.*{said}"):
        reader.search("*:*")


def test_an_error_of_the_agent_itself_is_the_answer_to_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that fails before it looks at the rows of a list answers with one object."""
    reader = Jolokia(8161)
    body = b'{"error_type": "java.lang.IllegalStateException", "error": "Bad JSON", "status": 500}'
    monkeypatch.setattr(reader, "_exchange", lambda _: (body, 200))
    with pytest.raises(JolokiaFailed, match="Bad JSON"):
        reader.read_all("a:b=c")
    with pytest.raises(JolokiaFailed, match="Bad JSON"):
        reader.clock()
    assert [answer.error for answer in reader.read_many([("a:b=c", "A"), ("a:b=c", "B")])] == [
        "java.lang.IllegalStateException: Bad JSON"
    ] * 2
