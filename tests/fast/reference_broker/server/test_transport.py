"""What stands between a socket and the node, without sockets: detection, the rate, passwords, certificates."""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path

import pytest
import trustme

from brokerproof.reference_broker.core.config import BrokerConfig, ConfigError
from brokerproof.reference_broker.core.instant import NS_PER_MS, Now
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.openwire.commands import KeepAliveInfo, WireFormatInfo
from brokerproof.reference_broker.openwire.framing import ClientFraming, OpenWireFraming
from brokerproof.reference_broker.openwire.wire.codec import Codec
from brokerproof.reference_broker.openwire.wire.negotiation import Offer
from brokerproof.reference_broker.security.authenticator import Authenticator, User
from brokerproof.reference_broker.security.identity import Credentials, Identity
from brokerproof.reference_broker.security.passwords import Cost, hash_password
from brokerproof.reference_broker.server.authentication import BUSY, WAITING_MAX, AsyncAuthenticator
from brokerproof.reference_broker.server.protocols import is_keep_alive, is_message
from brokerproof.reference_broker.server.rate_limit import TokenBucket
from brokerproof.reference_broker.session.actions import Close
from brokerproof.reference_broker.session.detection import AUTO, DECIDED_AT, Detector
from brokerproof.reference_broker.session.framing import FramingError, Limits
from brokerproof.reference_broker.settings.listen_address import Certificates, ListenAddress
from brokerproof.reference_broker.stomp.frames import HEARTBEAT, Frame
from tests.fast.reference_broker.node.wire_pair import WALL_MS

HELLO = Codec().encode(Offer().info())
S = 1_000_000_000


# -- detection


@pytest.mark.parametrize(
    ("data", "protocol"),
    [
        (b"CONNECT\n", "stomp"),
        (b"STOMP\n", "stomp"),
        (b"\nCONNECT", "stomp"),
        (b"\r\n", "stomp"),
        (b"GET / HTTP/1.1\r\n", "stomp"),
        (b"ABORT\n", "stomp"),
        (HELLO, "openwire"),
        (b"\x00\x00\x00\x10\x0a", "openwire"),  # another command than a hello
    ],
)
def test_the_first_bytes_decide_however_they_are_cut(data: bytes, protocol: str) -> None:
    for cut in range(1, min(len(data), DECIDED_AT + 2)):
        detector = Detector()
        found = detector.feed(data[:cut])
        if found is None:
            assert cut < DECIDED_AT
            found = detector.feed(data[cut:])
        assert found == protocol
        assert data.startswith(detector.data)


def test_one_byte_at_a_time_gives_the_same_and_never_needs_more_than_the_limit() -> None:
    for data, protocol in ((HELLO, "openwire"), (b"CONNECT\n", "stomp")):
        detector = Detector()
        answers = [detector.feed(data[place : place + 1]) for place in range(DECIDED_AT) if data[place : place + 1]]
        assert protocol in answers
        assert set(answers[: answers.index(protocol)]) <= {None}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x16\x03\x01\x02\x00", "it is TLS, on a port without it"),
        (b"AMQP\x00\x01\x00\x00", "it is AMQP"),
        (b"\x10\x1a\x00\x04MQTT", "it is MQTT"),
        (b"\x01ActiveMQ", "leave wireFormat.sizePrefixDisabled out"),
    ],
)
def test_what_is_not_served_is_refused_with_the_remedy(data: bytes, text: str) -> None:
    with pytest.raises(FramingError, match=text):
        Detector().feed(data)


def test_what_comes_before_the_own_hello_is_written_so_that_it_can_be_read() -> None:
    """Both encodings must be agreed on by both: a client that has heard the broker's offer and not made its own."""
    broker, client = OpenWireFraming(Limits()), ClientFraming(Limits(), "c")
    client.feed(broker.encode(WireFormatInfo()))
    (heard,) = broker.feed(client.encode(KeepAliveInfo()))
    assert isinstance(heard, KeepAliveInfo)
    broker.feed(client.encode(WireFormatInfo()))
    (heard,) = broker.feed(client.encode(KeepAliveInfo()))
    assert isinstance(heard, KeepAliveInfo)


def test_a_connection_without_protocol_has_one_connect_check_from_the_start() -> None:
    config = BrokerConfig()
    config.monitor.connect_timeout_ms = 1000
    node = Node(config)
    node.connect(1, AUTO, Now(0, WALL_MS))
    assert node.next_output(1, Now(0, WALL_MS)) is None, "nothing is said before it is known in which protocol"
    node.protocol_detected(1, "openwire", Now(900 * NS_PER_MS, WALL_MS))
    assert isinstance(node.next_output(1, Now(900 * NS_PER_MS, WALL_MS)), WireFormatInfo)
    node.tick(Now(1000 * NS_PER_MS, WALL_MS))
    assert any(isinstance(action, Close) and action.inactive for action in node.take_actions())


def test_bytes_that_are_nothing_end_a_connection_silently() -> None:
    node = Node(BrokerConfig())
    node.connect(1, AUTO, Now(0, WALL_MS))
    node.protocol_error(1, "it is MQTT", Now(0, WALL_MS))
    (close,) = [action for action in node.take_actions() if isinstance(action, Close)]
    assert close.reason == "it is MQTT"
    assert node.next_output(1, Now(0, WALL_MS)) is None


# -- the rate


def test_a_second_of_messages_may_come_at_once_then_one_by_one() -> None:
    meter = TokenBucket(10)
    assert [meter.wait_ns(0) for _ in range(10)] == [0] * 10
    assert meter.wait_ns(0) == S // 10
    assert meter.wait_ns(S // 20) == S // 20, "who has to wait has not been counted"
    assert meter.wait_ns(S // 10) == 0
    assert meter.wait_ns(S // 10) == S // 10
    assert [meter.wait_ns(100 * S) for _ in range(11)].count(0) == 10, "what is not used is not saved up"


@pytest.mark.parametrize("rate", [1, 3, 1000])
def test_over_a_long_time_the_rate_is_kept(rate: int) -> None:
    meter = TokenBucket(rate)
    passed = now_ns = 0
    while now_ns < 10 * S:
        wait_ns = meter.wait_ns(now_ns)
        passed += not wait_ns
        now_ns += wait_ns
    assert passed <= 11 * rate + 1
    assert passed >= 10 * rate


def test_what_counts_as_a_message_and_as_a_keep_alive() -> None:
    assert is_message(Frame("SEND", {}))
    assert not is_message(Frame("ACK", {}))
    assert is_keep_alive(HEARTBEAT)
    assert not is_keep_alive(Frame("ACK", {}))


# -- passwords beside the loop


def test_passwords_are_checked_beside_the_loop_and_known_ones_at_once() -> None:
    alice = Credentials("alice", "x")
    auth = Authenticator([User("alice", hash_password("x", Cost(2, 1, 1)))])
    started = threading.Event()
    go = threading.Event()
    check = auth.check

    class Slow(Authenticator):
        def check(self, credentials: Credentials) -> Identity | None:
            started.set()
            go.wait(10)
            return check(credentials)

        recall = auth.recall  # type: ignore[assignment]  # it must know what the other one has learnt

    async def scenario() -> list[tuple[str, str]]:
        answers: list[tuple[str, str]] = []
        all_there = asyncio.Event()

        def answer(identity: Identity | None, text: str) -> None:
            answers.append(("" if identity is None else identity.user, text))
            if len(answers) == WAITING_MAX + 2:
                all_there.set()

        authenticator = AsyncAuthenticator(Slow([User("alice", hash_password("x", Cost(2, 1, 1)))]))
        authenticator.ask(Credentials("", ""), answer)
        for _ in range(WAITING_MAX):
            authenticator.ask(alice, answer)
        authenticator.ask(alice, answer)
        assert answers == [("", answers[0][1]), ("", BUSY)], "nobody waits for the hash of somebody else"
        assert started.wait(10)
        go.set()
        await all_there.wait()
        authenticator.ask(alice, answer)
        assert answers[-1] == ("alice", ""), "now it is known"
        authenticator.close()
        return answers

    answers = asyncio.run(scenario())
    assert answers[2:] == [("alice", "")] * (WAITING_MAX + 1)


# -- certificates


def test_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    both, certificate, key = (tmp_path / name for name in ("both.pem", "cert.pem", "key.pem"))
    issued.private_key_and_cert_chain_pem.write_to_path(str(both))
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for wanted in (Certificates(both), Certificates(certificate, key)):
        context = wanted.context()
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.verify_mode == ssl.CERT_NONE
    assert Certificates(both, authorities=tmp_path / "ca.pem").context().verify_mode == ssl.CERT_REQUIRED
    with pytest.raises(ConfigError, match=r"cert\.pem cannot be used for TLS"):
        Certificates(certificate).context()
    with pytest.raises(ConfigError, match=r"key\.pem cannot be used for TLS"):
        Certificates(both, authorities=key).context()


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("::", False), ("10.0.0.1", False), ("broker", False)],
)
def test_only_numbers_say_that_an_address_is_this_machines(host: str, local: bool) -> None:
    assert ListenAddress(host=host).is_local() is local
