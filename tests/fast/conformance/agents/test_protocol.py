"""The agent protocol: what is accepted, what is refused and whose fault it is."""

from __future__ import annotations

import msgspec
import pytest

from brokerproof.conformance.agents import protocol
from brokerproof.conformance.agents.message import make_body, read_body
from brokerproof.conformance.agents.protocol import (
    AgentError,
    encode,
    parse_answer,
    parse_request,
)
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.exits import SUITE

TIMES = {"t0": 10, "t1": 20}


def answer(**fields: object) -> bytes:
    return msgspec.json.encode({**TIMES, **fields})


def test_a_request_survives_the_wire() -> None:
    request = protocol.Request(3, ops.Send(dest="q0", message="run:p0/1", ttl_ms=120_000), deadline_ms=70)
    line = encode(request)
    assert line.endswith(b"\n")
    found = parse_request(line)
    assert (found.id, found.operation, found.deadline_ms) == (3, request.operation, 70)


def test_the_deadline_of_a_take_is_the_applications() -> None:
    take = ops.Take(consumer="c0/1", deadline_ms=5)
    assert parse_request(encode(protocol.Request(1, take))).operation == take


def test_an_agent_is_not_told_which_host_it_is() -> None:
    assert b"p0" not in encode(protocol.Request(1, ops.Begin(host="p0", tx="t")))


def test_the_contract_example_is_a_request() -> None:
    line = b'{"id": 4, "do": "subscribe", "dest": "q0", "consumer": "c0/1", "prefetch": 10}'
    found = parse_request(line)
    assert (found.id, found.operation) == (4, ops.Subscribe(dest="q0", consumer="c0/1", prefetch=10))


@pytest.mark.parametrize(
    ("line", "shows"),
    [
        (b"hello", "hello"),
        (b'{"id": 1, "do": "dance"}', "dance"),
        (b'{"id": 1, "do": "take", "consumr": "c0/1"}', "consumr"),
        (b'{"do": "hello"}', "`int`"),
        (b"[1]", "object"),
    ],
)
def test_a_bad_request_shows_what_it_reads(line: bytes, shows: str) -> None:
    with pytest.raises(ValueError, match="not a request of protocol 1") as caught:
        parse_request(line)
    assert shows in str(caught.value)


def test_a_reply_and_an_event_are_told_apart() -> None:
    reply = parse_answer(answer(id=7, wall_ms=5, ok={"x": 1}), "a")
    assert isinstance(reply, protocol.Reply)
    assert reply.ok == {"x": 1}
    event = parse_answer(answer(event="arrive", consumer="c0/1", message="run:p0/1"), "a")
    assert isinstance(event, protocol.Arrive)


@pytest.mark.parametrize(
    ("line", "shows"),
    [
        (b"\xff\xfe", "neither a reply nor an event"),
        (b"[1]", "neither a reply nor an event"),
        (answer(event="vanish"), "vanish"),
        (answer(id=1, wall_ms=5), "none of ok, fail, unknown"),
        (answer(id=1, wall_ms=5, ok={}, unknown="lost"), "exactly one"),
        (answer(id=1, ok={}), "wall_ms"),
        (answer(id=1, wall_ms=5, ok={}, tired=True), "tired"),
        (msgspec.json.encode({"t0": 20, "t1": 10, "id": 1, "wall_ms": 5, "ok": {}}), "no interval"),
    ],
)
def test_an_agent_that_breaks_the_protocol_is_the_suites_failure(line: bytes, shows: str) -> None:
    with pytest.raises(AgentError, match="agent p0") as caught:
        parse_answer(line, "p0")
    assert shows in str(caught.value)
    assert caught.value.exit_code == SUITE


@pytest.mark.parametrize("size", [0, 9, 10, 64, 4096])
def test_a_body_tells_its_message_and_has_its_size(size: int) -> None:
    body = make_body("run:p0/1", size)
    assert read_body(body) == "run:p0/1"
    assert len(body) == max(size, len("run:p0/1\n"))


@pytest.mark.parametrize(
    "body", [b"", b"x", b"run:p0/1", b"run:p0/1\nother text", b"\n....", b"two words\n", b"\xff\n"]
)
def test_what_the_suite_did_not_write_has_no_message(body: bytes) -> None:
    assert read_body(body) == ""
