"""Reproducers: what is written, what is refused and why, and that the files are ones that Python takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from brokerproof.conformance.cli import main
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec, LinkSpec, MonitorSpec
from brokerproof.conformance.experiment.exits import OK, USAGE, UsageError
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import AnyStep
from brokerproof.conformance.experiment.steps.consume import Ack, Leave, Nack, Subscribe, Take
from brokerproof.conformance.experiment.steps.fault import Clock
from brokerproof.conformance.experiment.steps.operation import Restart
from brokerproof.conformance.experiment.steps.send import Send
from brokerproof.conformance.experiment.steps.transaction import Begin
from brokerproof.conformance.experiment.steps.waiting import Advance
from brokerproof.conformance.export.expectations import KINDS, AgainMarked
from brokerproof.conformance.export.junit import class_name, junit_file
from brokerproof.conformance.export.script import Script, resolved
from brokerproof.conformance.export.stomp import pytest_file, stomp_file, transcript
from brokerproof.conformance.export.target import target
from brokerproof.conformance.export.told import Told, told

BROKER = HostSpec("b", "broker")
FAST = HostSpec("p0", "client", clock=ClockSpec(offset_ms=7))
TAKE = Take(deadline_ms=100)
#: A program for each way in which a requirement is asserted.
SHOWN = {
    "DLY-001": "live-delay",
    "DLY-018": "delays-in-transactions",
    "DLY-006": "live-delay-ttl",
    "DLY-015": "live-delay-ttl",
    "TSP-011": "live-future-only",
    "TSP-012": "live-future-ceiling",
    "RDL-001": "live-returns-twice",
    "GEN-042": "live-durable",
    "RDL-005": "live-returns-twice",
    "GEN-001": "live-returns-twice",
    "DLY-020": "delayed-publication",
    "RDL-003": "live-returns-twice",
}


def program(*steps: AnyStep, p0: HostSpec | None = None, links: list[LinkSpec] | None = None) -> Program:
    hosts = [BROKER, p0 or HostSpec("p0", "client"), HostSpec("c0", "client")]
    return Program(FORMAT, BrokerSpec(), hosts, links or [], steps=list(steps))


def test_a_transcript_is_what_a_person_would_write() -> None:
    early = HostSpec("p0", "client", clock=ClockSpec(offset_ms=300_000))
    steps = [Subscribe(host=1), Send(ttl_ms=120_000, size=8), Clock(host=1, jump_ms=1000), Send(ttl_ms=1, size=8)]
    script = resolved("small", program(*steps, Advance(250), TAKE, Ack(), Leave(how="drop"), p0=early))
    text = transcript(script, target("reference"))
    assert "expires:{now+420000}\ntimestamp:{now+300000}\n" in text
    assert "expires:{now+301001}\ntimestamp:{now+301000}\n" in text, (
        "a jump of the producer's clock shows in its stamps"
    )
    assert text.endswith(
        "# step 5\n... 250\n\n# step 6\n<<< c0/1 3000\n\n"
        "# step 7\n>>> c0\nACK\nid:{ack c0/1 p0/1}\nreceipt:r2\n\n^@\n\n# step 8\nxxx c0\n"
    )


@pytest.mark.parametrize("requirement", SHOWN)
def test_every_kind_of_expectation_has_its_words_in_each_format(requirement: str) -> None:
    script = resolved(SHOWN[requirement], programs()[SHOWN[requirement]])
    known = told(script, target("activemq"), [requirement])
    for one in (pytest_file, stomp_file):
        compile(one(script, known), requirement, "exec")
    sentences = [one.sentence for one in known.expected[requirement]]
    assert sentences
    assert all(sentence in pytest_file(script, known) for sentence in sentences)


def test_every_way_of_asserting_is_tried_here() -> None:
    ways = {KINDS[name] for name in SHOWN}
    assert {name for name, way in KINDS.items() if way not in ways} <= {
        *("TSP-003", "DLY-030", "DLY-031", "EXP-001", "EXP-004", "EXP-012")
    }


def test_what_expired_never_arrives() -> None:
    made = program(Send(ttl_ms=500), Send(), Advance(1000), Subscribe(host=1), TAKE)
    script = resolved("small", made)
    text = pytest_file(script, told(script, target("reference"), ["EXP-004"]))
    assert "'p0/1 never arrives at c0/1'" in text
    assert "p0/2 never" not in text


def test_a_copy_for_somebody_else_is_no_redelivery() -> None:
    script = resolved("sent-to-two-names", programs()["sent-to-two-names"])
    assert len({consumer for consumer, message in script.taken() if message == "p0/1"}) > 1
    assert "p0/1" not in [one.message for one in KINDS["RDL-002"](script) if isinstance(one, AgainMarked)]


def test_a_refusal_is_an_expectation_too() -> None:
    script = resolved(
        "small",
        Program(
            FORMAT, BrokerSpec(delay_support=False), [BROKER, HostSpec("p0", "client")], [], steps=[Send(delay_ms=500)]
        ),
    )
    text = pytest_file(script, told(script, target("reference"), ["DLY-031"]))
    assert "assert 'p0/1' in run.refused" in text.replace('"', "'")


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (program(Send(), Restart()), "step 2 (restart): no client can do that"),
        (program(Clock(host=0, jump_ms=5)), "step 1 (clock): the broker's clock jumps"),
        (program(Send(life_ms=5)), "step 1 (send): a message with life_ms"),
        (program(Subscribe(browser=True)), "step 1 (subscribe): a browser"),
        (program(Send(), links=[LinkSpec("p0", monitor=MonitorSpec(1000, 0))]), "the link of p0 has a monitor"),
        (program(Send(), p0=HostSpec("p0", "client", clock=ClockSpec(drift_ppm=9))), "the clock of p0 drifts"),
        (program(Send(ttl_ms=1000), Advance(980), Subscribe(host=1), TAKE), "hangs on less than 50 ms"),
    ],
)
def test_what_no_client_can_do_is_refused_by_step(made: Program, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        resolved("small", made)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("made", "one", "sentence"),
    [
        (program(Send(), p0=HostSpec("p0", "client", via="jms")), pytest_file, "p0 is played over JMS"),
        (program(Send(), p0=HostSpec("p0", "client", version="1.1")), pytest_file, "p0 offers STOMP 1.1 alone"),
        (program(Send(), p0=FAST), junit_file, "step 1 (send): the clock of p0 is off by 7 ms"),
        (program(Send(forged=3)), junit_file, "step 1 (send): forged is STOMP's alone"),
        (program(Send(), Subscribe(host=1), TAKE, Nack()), junit_file, "step 4 (nack): the stock JMS client cannot"),
        (program(Send(), Subscribe(host=1), Leave(how="kill")), junit_file, "step 3 (leave): how=kill"),
        (program(Send(), Subscribe(host=1), TAKE, Begin(host=1), Ack()), junit_file, "step 5 (ack): it is part of a"),
    ],
)
def test_what_a_format_cannot_say_is_refused_by_step(
    made: Program, one: Callable[[Script, Told], str], sentence: str
) -> None:
    with pytest.raises(UsageError) as error:
        one(resolved("small", made), Told(target("activemq"), {}))
    assert sentence in str(error.value)


def test_junit_speaks_the_api_of_the_release() -> None:
    script = resolved("live-delay-ttl", programs()["live-delay-ttl"])
    for broker, api in (("activemq@5.16.7", "javax"), ("activemq@6.1.8", "jakarta")):
        text = junit_file(script, told(script, target(broker), ["DLY-006"]))
        assert f"import {api}.jms.*;" in text
        assert f"public class {class_name(script.name)} {{" in text
        assert 'send("p0", false, "queue://q0.run", "p0/1", 64, 1000, 120000, 4, true, Map.of());' in text
        assert 'schedulerSupport="true"' in text
    with pytest.raises(UsageError, match="is for ActiveMQ Classic"):
        junit_file(script, told(script, target("rabbitmq"), ["DLY-006"]))
    assert class_name("out/3-steps.json") == "Replay3StepsTest"


def test_the_words_are_the_brokers() -> None:
    script = resolved("live-returns-twice", programs()["live-returns-twice"])
    assert "prefetch-count:2" in transcript(script, target("rabbitmq"))
    delayed = resolved("small", program(Send(delay_ms=5)))
    with pytest.raises(UsageError, match=r"small: step 1 \(send\): rabbitmq has no header for delay"):
        transcript(delayed, target("rabbitmq"))
    with pytest.raises(UsageError, match="speaks no STOMP"):
        transcript(script, target("mosquitto"))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "test_it.py"
    words = ["export", "live-delay-ttl", "--broker", "activemq"]
    assert main([*words, "--as", "pytest", "--out", str(path)]) == OK
    text = path.read_text()
    assert "def test_dly_006(run):" in text, "what is known of this broker and program is asserted"
    assert "def test_dly_015(run):" in text
    assert "Seen on activemq 5.17.2: the scheduler gives" in text
    capsys.readouterr()
    assert main([*words, "--as", "stomp", "--requirement", "DLY-001"]) == OK
    assert "p0/1 does not arrive before 1000 ms have passed" in capsys.readouterr().out
    for rest, sentence in (
        (["live-delay-ttl", "--broker", "reference"], "has no known deviation in live-delay-ttl; say what to assert"),
        (["live-delay-ttl", "--requirement", "MEM-004"], "does not exercise MEM-004"),
        (["live-limit", "--requirement", "MEM-003"], "MEM-003 cannot be asserted by what clients see"),
        (["live-delay-tt", "--requirement", "DLY-001"], "live-delay-ttl"),
        (["live-delay-ttl", "--broker", "stomp://h:1", "--requirement", "DLY-001"], "takes an address from BROKER"),
        ([*words[1:], "--out", str(tmp_path / "no" / "where")], "cannot be written"),
    ):
        assert main(["export", *rest, "--as", "pytest"]) == USAGE
        assert sentence in capsys.readouterr().err
