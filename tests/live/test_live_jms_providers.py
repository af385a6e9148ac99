"""JMS providers that nobody here knows: three of them play programs of the corpus; profiles that are wrong."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from brokerproof.chaos.brokers.archives import obtained
from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.brokers import make_adapter
from brokerproof.conformance.brokers.class_path import class_path
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.cli import main
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.configuration import BrokerSpec, HostSpec
from brokerproof.conformance.experiment.destinations import queues, topics
from brokerproof.conformance.experiment.exits import OK, USAGE, VIOLATED
from brokerproof.conformance.experiment.history import Send
from brokerproof.conformance.experiment.history import Subscribe as Subscribed
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import AnyStep, Disconnect, Leave, Subscribe, Take
from brokerproof.conformance.experiment.steps import Send as SendStep
from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.rules.delay_resolved import THROWS
from brokerproof.conformance.running.live import run_all
from tests.live.bench import need_clocks
from tests.tools import at_night, not_run

pytestmark = pytest.mark.live

JAR = "maven:org.apache.activemq:activemq-all:5.16.7"
#: A program each about a life, a delay and asking, what comes again, transactions, and properties where no step asks;
#: and what it must show.
PLAYED = {
    "expired-in-the-hand": ("EXP-002", "EXP-023"),
    "pulled-before-it-is-due": ("DLY-003", "DLY-005"),
    "live-redelivery": ("RDL-001", "GEN-001"),
    "transaction-rollback": ("GEN-061", "GEN-122"),
    "transaction-acknowledges-jms": ("GEN-064",),
    "live-transacted-acks": ("GEN-065",),
    "selectors-of-two-kinds-of-numbers": ("GEN-020",),
}


def provider(broker: str) -> ProfileAdapter:
    """Not run where its library cannot be had."""
    adapter = make_adapter(broker)
    assert isinstance(adapter, ProfileAdapter)
    try:
        class_path(adapter.located)
    except (ToolMissing, ToolFailed) as error:
        not_run(f"{broker}: {error}")
    return adapter


@pytest.mark.parametrize("broker", at_night(["activemq-jms", "artemis-jms", "artemis-qpid-jms"], but=["activemq-jms"]))
def test_a_provider_plays_the_corpus(broker: str) -> None:
    need_clocks()
    adapter = provider(broker)
    plan = [(name, adapter.cast(programs()[name])) for name in PLAYED]
    for result in run_all(adapter, plan, tuple(default_catalogue().select(None))):
        assert not result.problem
        assert not result.not_run
        found = {one.requirement: one.verdict for one in result.verdicts}
        assert VerdictKind.VIOLATED not in found.values()
        assert [found[one] for one in PLAYED[result.name]] == [VerdictKind.SATISFIED] * len(PLAYED[result.name])


@pytest.mark.parametrize("broker", at_night(["artemis-jms", "artemis-qpid-jms"], but=["artemis-jms"]))
def test_a_jms_2_library_is_called_in_every_order(broker: str) -> None:
    """Both façades of one library; what its producer says of itself, and what it puts on the message."""
    adapter = provider(broker)
    plan = [("calls", adapter.cast(programs()["producer-calls-in-six-orders"]))]
    (result,) = run_all(adapter, plan, tuple(default_catalogue().select(None)))
    assert (result.problem, result.not_run) == ("", "")
    found = {one.requirement: one.verdict for one in result.verdicts}
    assert VerdictKind.VIOLATED not in found.values()
    assert found["DLY-053"] is VerdictKind.SATISFIED
    assert result.history is not None
    told = [event for event in result.history.events if isinstance(event, Send)]
    assert len(told) == 17
    for event in told:
        before = [call for call, _, _ in event.called[: [call for call, _, _ in event.called].index("send")]]
        asked_ms = {call: value_ms for call, value_ms, _ in event.called if call in before}
        assert (event.result, event.ttl_ms, event.delay_ms) == ("ok", asked_ms.get("life", 0), asked_ms.get("delay", 0))
        assert event.timestamp_ms is not None
        # Artemis reads the clock once for each.
        ends_ms = event.timestamp_ms + event.ttl_ms if event.ttl_ms else 0
        assert event.expiration_ms is not None
        assert abs(event.expiration_ms - ends_ms) <= (50 if event.ttl_ms else 0)
    assert {(event.facade, tuple(call for call, _, _ in event.called)) for event in told} == {
        (facade, order) for facade in THROWS for order in permutations(("life", "delay", "send"))
    }


@pytest.mark.parametrize("broker", at_night(["artemis-jms", "artemis-qpid-jms"]))
def test_an_agent_lets_go_of_connections_that_are_no_more(broker: str) -> None:
    """Its memory is for fifty of them, if it keeps them."""
    adapter = provider(broker)
    again: list[AnyStep] = [Subscribe(ack="auto"), Leave(how="drop")]
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", "jms")]
    program = Program(FORMAT, BrokerSpec(), hosts, [], queues("q0"), [*again * 100, Subscribe(), SendStep(), Take()])
    (result,) = run_all(adapter, [("again", adapter.cast(program))], tuple(default_catalogue().select(None)))
    assert (result.problem, result.not_run) == ("", "")
    assert result.history is not None
    assert len([event for event in result.history.events if isinstance(event, Subscribed)]) > 100


@pytest.mark.parametrize("broker", at_night(["artemis-jms", "artemis-qpid-jms"], but=["artemis-jms"]))
def test_a_host_that_says_goodbye_is_gone(broker: str) -> None:
    """A connection of JMSContexts ends with the last of them; till then nobody else may have its client id."""
    adapter = provider(broker)
    hosts = [HostSpec("b", "broker"), HostSpec("c0", "client", "jms")]
    there: list[AnyStep] = [Subscribe(durable="d"), SendStep(), Take()]
    steps: list[AnyStep] = [*there, Disconnect(), *there, Disconnect(), *there]
    program = Program(FORMAT, BrokerSpec(), hosts, [], topics("t0"), steps)
    (result,) = run_all(adapter, [("again", adapter.cast(program))], tuple(default_catalogue().select(None)))
    assert (result.problem, result.not_run) == ("", "")
    found = {one.requirement: one.verdict for one in result.verdicts}
    assert VerdictKind.VIOLATED not in found.values()
    assert found["GEN-106"] is VerdictKind.SATISFIED


PROFILE = """
name = "mine"
[start]
command = ["{python}", "-m", "brokerproof.reference_broker.server",
  "--port", "{port.jms}", "--config", "{here}/broker.toml"]
ready = { log = "listening on stomp" }
[endpoints.jms]
classpath = ["JAR"]
factory = "org.apache.activemq.ActiveMQConnectionFactory"
uri = "tcp://127.0.0.1:{port.jms}?jms.prefetchPolicy.queuePrefetch=0&jms.watchTopicAdvisories=false"
api = "javax"
login = "app"
passcode = "secret"
individual = 4
expiry_check = true
[names.jms]
dead_letters = "ActiveMQ.DLQ"
headers = { delay = "AMQ_SCHEDULED_DELAY" }
[promises]
capabilities = ["persistent", "ttl"]
"""
BROKER = """
[[security.users]]
name = "app"
password = "secret"
"""


def written(folder: Path, text: str) -> str:
    try:
        jar = obtained(JAR)
    except (ToolMissing, ToolFailed) as error:
        not_run(str(error))
    (folder / "broker.toml").write_text(BROKER, encoding="utf-8")
    (folder / "mine.toml").write_text(text.replace("JAR", str(jar)), encoding="utf-8")
    return str(folder / "mine.toml")


#: What is said -> the line, and how it is wrong.
LIES = {
    "endpoints.jms.factory: there is no class": ("ActiveMQConnectionFactory", "ActiveMQConectionFactory"),
    "endpoints.jms.factory: org.apache.activemq.command.ActiveMQQueue is not a": (
        "org.apache.activemq.ActiveMQConnectionFactory",
        "org.apache.activemq.command.ActiveMQQueue",
    ),
    'jms.api: the class path has no jakarta.jms.ConnectionFactory; it has javax.jms; write api = "javax"': (
        'api = "javax"',
        'api = "jakarta"',
    ),
    "endpoints.jms.login: the broker does not let us in as 'app'": ('"secret"', '"wrong"'),
    "endpoints.jms.properties.prefetsch: ": ("login =", "properties = { prefetsch = 0 }\nlogin ="),
    'jms.facade: org.apache.activemq.ActiveMQConnectionFactory has no JMSContext; write facade = "classic"': (
        "login =",
        'facade = "context"\nlogin =',
    ),
    "endpoints.jms.uri: of four messages": ("queuePrefetch=0", "queuePrefetch=10"),
    "endpoints.jms.expiry_check: the library throws away": ("expiry_check = true", "expiry_check = false"),
    "names.jms.headers.delay: this library has no setDeliveryDelay": (
        'headers = { delay = "AMQ_SCHEDULED_DELAY" }\n[promises]\ncapabilities = [',
        '[promises]\ncapabilities = ["delay", ',
    ),
}
#: Each takes a Java of its own; the others are told at night.
DAILY = {"endpoints.jms.factory: there is no class", "endpoints.jms.login: the broker does not let us in as 'app'"}


@pytest.mark.parametrize("shows", at_night(LIES, but=DAILY))
def test_the_line_that_is_wrong_is_named(shows: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    true, false = LIES[shows]
    assert true in PROFILE
    assert main(["profile", "check", written(tmp_path, PROFILE.replace(true, false))]) == VIOLATED
    told = capfd.readouterr().out
    assert any(line.startswith("wrong") and shows in line for line in told.splitlines()), told


def test_a_profile_without_a_wrong_line_is_proven(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "check", written(tmp_path, PROFILE)]) == OK
    assert "ok          endpoints.jms.expiry_check" in capfd.readouterr().out


def test_a_run_that_is_not_let_in_accuses_nobody(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, PROFILE.replace('"secret"', '"wrong"'))
    assert main(["replay", "live-redelivery", "--tier", "live", "--broker", path]) == USAGE
    assert "endpoints.jms.login: the broker does not let us in as 'app'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("entry", "shows"),
    [
        ("maven:org.apache.activemq:activemq-client:0.0.0", "is not to be had: Maven's repositories have no"),
        ("maven:org.apache.activemq", "is not maven:GROUP:ARTIFACT:VERSION"),
        ("no-such.jar", "there is no jar and no folder with jars at"),
    ],
)
def test_a_class_path_that_is_not_there(
    entry: str, shows: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, PROFILE.replace('"JAR"', f'"{entry}"'))
    assert main(["profile", "check", path]) == USAGE
    assert f"mine.toml: endpoints.jms.classpath: {entry!r}" in (told := capfd.readouterr().err)
    assert shows in told
