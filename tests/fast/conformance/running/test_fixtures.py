"""Somebody's own tests: what fixtures and mark make of them, as pytest tells it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

# What is imported before stays imported: each pytest within this one forgets what it has imported itself.
import brokerproof.conformance.machines.testing
import brokerproof.conformance.worlds.live.world  # noqa: F401

pytest_plugins = ["pytester"]

EXPIRY = """
import pytest
from brokerproof.conformance.machines.testing import experiment, requirement

@pytest.fixture
def broker_experiment():
    return experiment(clients=("shop", "till"), queues_=("orders",))

@requirement("EXP-004")
def test_expiry(broker_under_test):
    broker_under_test.client("shop").send("orders", ttl_ms=500)
    broker_under_test.advance(1000)
    message = broker_under_test.client("till").subscribe("orders").receive()
    assert message is None, "it is out of date"
"""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a summary line is cut off."""
    monkeypatch.setenv("COLUMNS", "300")


def run(pytester: pytest.Pytester, text: str, *argv: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:randomly", *argv)


def test_a_test_is_judged(pytester: pytest.Pytester) -> None:
    done = run(pytester, EXPIRY)
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["1 satisfied", "verdict digest: sha256:*"])


def test_the_summary_says_which_requirement_and_what_was_observed(pytester: pytest.Pytester) -> None:
    """The test's own assertion is told too, and the program is a file that replays."""
    done = run(pytester, EXPIRY, "--brokerproof-mutant", "expiry-never")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "EXP-004 (MUST) *",
            "*replay:*",
            "The test itself failed before: it is out of date*",
            "FAILED*::test_expiry - EXP-004: *",
        ]
    )
    (saved,) = Path(pytester.path, "brokerproof-out").iterdir()
    assert [step["do"] for step in json.loads(saved.read_text())["steps"]] == ["send", "advance", "subscribe", "take"]
    assert str(saved.name) in done.stdout.str()


def test_clocks_links_and_the_history(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
        import pytest

        @pytest.mark.requirement("GEN-001")
        def test_all(broker_under_test, skewed_clock, stalled_link, history):
            skewed_clock("p0", -60_000)
            producer = broker_under_test.client("p0")
            queue = broker_under_test.client("c0").subscribe("q0", ack="individual")
            with stalled_link("c0", toward="client"):
                sent = producer.send("q0", ttl_ms=70_000)
                assert queue.receive(100) is None
            message = queue.receive()
            assert (message.message, message.expiration_ms) == (sent.message, sent.expiration_ms)
            queue.nack(message)
            producer.begin()
            producer.send("q0", ttl_ms=5_000)
            producer.rollback()
            broker_under_test.settle()
            assert broker_under_test.counters("q0").in_flight == 0
            faults = [event for event in history().events if event.__class__.__name__ == "Fault"]
            assert len(faults) == 3
        """,
    )
    done.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("broker_under_test.client('p0')", "EXP-004: not exercised: the test never creates the situation"),
        ("broker_under_test.client('p1')", "EXP-004: *UsageError: no client 'p1': there is p0, c0"),
        ("broker_under_test.client('p0').send('q1')", "EXP-004: *UsageError: no destination 'q1'*there is q0"),
        ("broker_under_test.client('p0').send('q0', deliver_in_ms=5)", "EXP-004: *UsageError: *is not possible now*"),
        ("broker_under_test.finish(); broker_under_test.advance(1)", "EXP-004: *UsageError: *comes after the end*"),
    ],
)
def test_what_does_not_show_it(pytester: pytest.Pytester, body: str, says: str) -> None:
    mark = "import pytest\n@pytest.mark.requirement('EXP-004')\n"
    done = run(pytester, f"{mark}def test_it(broker_under_test):\n    {body}\n")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([f"FAILED*::test_it - {says}*"])


def test_bad_options_and_marks_are_told_shortly(pytester: pytest.Pytester) -> None:
    done = run(pytester, EXPIRY, "--brokerproof-mutant", "expiry-nevr")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*mutant 'expiry-nevr' is unknown; did you mean 'expiry-never'?*"])
    assert "Traceback" not in done.stdout.str() + done.stderr.str()
    done = run(pytester, EXPIRY.replace("EXP-004", "EXP-4"))
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*@requirement('EXP-4'): no such judged requirement*"])


def test_the_mark_alone_names_what_fails(pytester: pytest.Pytester) -> None:
    done = run(pytester, "import pytest\n@pytest.mark.requirement('DLY-001')\ndef test_it():\n    assert 1 == 2\n")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["FAILED*::test_it - DLY-001: assert 1 == 2"])


MACHINE = """
from hypothesis import settings, strategies as st
from hypothesis.stateful import rule
from brokerproof.conformance.machines.testing import brokerproof_machine

class Orders(brokerproof_machine(requirements=("EXP-004",), mutant=MUTANT)):
    @rule(ttl_ms=st.integers(1, 2000))
    def order(self, ttl_ms):
        self.broker.client("p0").send("q0", ttl_ms=ttl_ms)

    @rule(ms=st.integers(1, 3000))
    def wait(self, ms):
        self.broker.advance(ms)

    @rule()
    def look(self):
        self.broker.client("c0").subscribe("q0", prefetch=1000)

TestOrders = Orders.TestCase
TestOrders.settings = settings(max_examples=25, stateful_step_count=5, database=None, derandomize=True)
"""


@pytest.mark.parametrize("mutant", [None, "expiry-never"])
def test_a_machine_of_ones_own(pytester: pytest.Pytester, mutant: str | None) -> None:
    done = run(pytester, MACHINE.replace("MUTANT", repr(mutant)))
    done.assert_outcomes(**{"passed" if mutant is None else "failed": 1})
    if mutant is not None:
        done.stdout.fnmatch_lines(["*EXP-004 (MUST)*", "FAILED*::runTest - EXP-004: *"])
