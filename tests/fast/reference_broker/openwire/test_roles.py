"""Both ends of OpenWire over bytes: the JMS client's commands reach the broker's session, and back, in every encoding.

Method: the pair of the other tests, with a framing at each end of the line, so that nothing but bytes passes.
"""

from __future__ import annotations

import pytest

from brokerproof.reference_broker.openwire.commands import WireFormatInfo
from brokerproof.reference_broker.openwire.framing import ClientFraming, OpenWireFraming
from brokerproof.reference_broker.openwire.wire.negotiation import Offer
from brokerproof.reference_broker.session.framing import Limits
from tests.fast.reference_broker.node.wire_pair import Pair
from tests.fast.reference_broker.openwire.test_wire import OFFERS


class BytePair(Pair):
    """A pair whose OpenWire connections are lines of bytes."""

    def __init__(self, offer: Offer) -> None:
        super().__init__()
        self.offer = offer
        self.lines: dict[int, tuple[ClientFraming, OpenWireFraming]] = {}
        self.held: dict[int, list[object]] = {}
        self.bytes_up = 0
        self.bytes_down = 0

    def line(self, connection: int) -> tuple[ClientFraming, OpenWireFraming]:
        found = self.lines.get(connection)
        if found is None:
            theirs = ClientFraming(Limits(), f"ID:c{connection}", self.offer)
            found = self.lines[connection] = theirs, OpenWireFraming(Limits())
        return found

    def _upstream(self, connection: int) -> bool:
        """What a client says before it has heard the broker's WireFormatInfo waits, as in its transport."""
        waiting = self.held.get(connection)
        if waiting and self.line(connection)[0].theirs is not None:
            del self.held[connection]
            for frame in waiting:
                for arrived in self.upstream(connection, frame):
                    self.node.receive(connection, arrived, self.now())
        return super()._upstream(connection) or bool(waiting)

    def upstream(self, connection: int, frame: object) -> list[object]:
        client, broker = self.line(connection)
        if client.theirs is None and not isinstance(frame, WireFormatInfo):
            self.held.setdefault(connection, []).append(frame)
            return []
        data = client.encode(frame)
        self.bytes_up += len(data)
        return list(broker.feed(data))

    def downstream(self, connection: int, frame: object) -> list[object]:
        client, broker = self.line(connection)
        data = broker.encode(frame)
        self.bytes_down += len(data)
        return list(client.feed(data))


@pytest.mark.parametrize("name", OFFERS)
def test_a_jms_client_of_ours_works_over_bytes(name: str) -> None:
    pair = BytePair(OFFERS[name])
    client = pair.jms()
    client.subscribe("c", "queue://q", 10, ack="client", selector="number > 1")
    client.subscribe("t", "topic://t", 10, ack="auto")
    for number in range(4):
        client.send("queue://q", b"%d" % number, pair.now(1), properties={"number": number})
    client.send("topic://t", b"news", pair.now(1), correlation_id="x", ttl_ms=60_000)
    pair.run()
    taken = [client.take("c", pair.now(1))[0] for _ in range(2)]
    assert [one.body for one in taken if one is not None] == [b"2", b"3"]
    (news,) = [one for one in [client.take("t", pair.now(1))[0]] if one is not None]
    assert (news.body, news.correlation_id, news.expiration_ms) == (b"news", "x", pair.wall_ms + 60_000)
    client.begin("tx")
    client.acknowledge("c", transaction="tx")
    client.send("queue://out", b"done", pair.now(1), transaction="tx")
    client.commit("tx")
    pair.run()
    assert (pair.counter("size"), pair.counter("size", "queue://out")) == (2, 1)
    reply = client.create_temporary("queue")
    client.subscribe("r", reply)
    pair.run()
    client.close_consumer("r")
    client.disconnect()
    pair.run()
    assert [close.reason for _, close in pair.closes] == ["ShutdownInfo"]
    assert pair.bytes_up > 500
    assert pair.bytes_down > 500


@pytest.mark.parametrize(("taken", "marked"), [(0, [False] * 3), (2, [True, True, False])])
def test_a_close_tells_the_last_message_that_was_seen(taken: int, marked: list[bool]) -> None:
    pair = BytePair(Offer())
    client = pair.jms()
    client.subscribe("c", "queue://q", 10, ack="client")
    for number in range(3):
        client.send("queue://q", b"%d" % number, pair.now(1))
    pair.run()
    for _ in range(taken):
        client.take("c", pair.now(1))
    client.close_consumer("c")
    client.subscribe("d", "queue://q", 10)
    pair.run()
    again = [client.take("d", pair.now(1))[0] for _ in range(3)]
    assert [one.redelivered for one in again if one is not None] == marked


def test_a_refusal_reaches_the_client_with_its_exception() -> None:
    pair = BytePair(Offer())
    client = pair.jms()
    name = client.subscribe("c", "queue://q", 10, selector="= 1", receipt=True)
    pair.run()
    failed = [notice for notice in pair.notices[1] if type(notice).__name__ == "Failed"]
    assert [(one.receipt, one.code) for one in failed] == [(name, "javax.jms.InvalidSelectorException")]  # type: ignore[attr-defined]
