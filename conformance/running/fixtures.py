"""Fixtures for somebody's own tests of a broker, and the mark ``requirement`` (docs/pytest.md).

Rules
* Nothing of the suite is imported before a test asks for it: every pytest run of a project that has us loads this file.
* A test with the mark is judged when its body has ended: a violated requirement fails it, and its summary line says
  which one and what was observed. A requirement that the test has never exercised fails it too: the test does not show
  what it says. What is inconclusive, not applicable or not offered skips it, with the reason.
* Without the fixtures the mark names what a test is about: if it fails, its summary line begins with the requirement.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.history import History
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.experiment.verdict import Verdict
    from brokerproof.conformance.running.under_test import BrokerUnderTest
    from brokerproof.conformance.worlds.live.laboratory import Laboratory

MARK = "requirement"
_TEST = pytest.StashKey["BrokerUnderTest"]()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line("markers", f"{MARK}(id, ...): judge the broker_under_test by these requirements")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse requirements that do not exist, before anything runs."""
    for item in items:
        _requirements(item)


def _requirements(item: pytest.Item) -> list[str]:
    """The ids that an item's marks name, without repetition. Raises ``UsageError``."""
    named = [name for mark in item.iter_markers(MARK) for name in mark.args]
    if named:
        from brokerproof.conformance.requirements.catalogue import default_catalogue

        known = default_catalogue().select(None)
        for name in named:
            if name not in known:
                raise pytest.UsageError(
                    f"{item.nodeid}: @requirement({name!r}): no such judged requirement; ids look like EXP-001, "
                    "`brokerproof list` shows them"
                )
    return list(dict.fromkeys(named))


@pytest.fixture
def broker_experiment() -> Program:
    """The frame of a test: clients ``p0`` and ``c0``, queue ``q0``. Override it for others (``experiment``)."""
    from brokerproof.conformance.running.under_test import experiment

    return experiment()


@pytest.fixture(scope="session")
def brokerproof_laboratory() -> Iterator[Callable[[], Laboratory]]:
    """The processes around a broker, when the first test needs them; stopped with the session."""
    from brokerproof.conformance.worlds.live.laboratory import Laboratory

    with ExitStack() as stack:
        made: list[Laboratory] = []

        def laboratory() -> Laboratory:
            if not made:
                made.append(stack.enter_context(Laboratory()))
            return made[0]

        yield laboratory


@pytest.fixture
def broker_under_test(
    request: pytest.FixtureRequest,
    broker_experiment: Program,
    brokerproof_laboratory: Callable[[], Laboratory],
) -> Iterator[BrokerUnderTest]:
    """The broker that ``--brokerproof-broker`` and ``--brokerproof-tier`` name, in a world of its own."""
    from brokerproof.chaos.tools import ToolMissing
    from brokerproof.conformance.experiment.exits import USAGE
    from brokerproof.conformance.running.opening import opened
    from brokerproof.conformance.running.under_test import NotOffered

    option = request.config.getoption
    broker, tier, mutant = (option(f"--brokerproof-{name}") for name in ("broker", "tier", "mutant"))
    with ExitStack() as stack:
        try:
            under_test = stack.enter_context(
                opened(broker, tier, broker_experiment, brokerproof_laboratory, mutant=mutant)
            )
        except NotOffered as error:
            pytest.skip(f"not applicable: {error}")
        except ToolMissing as error:
            _not_run(error)
        except Exception as error:
            if getattr(error, "exit_code", None) != USAGE:
                raise
            pytest.fail(str(error), pytrace=False)
        request.node.stash[_TEST] = under_test
        yield under_test


@pytest.fixture
def skewed_clock(broker_under_test: BrokerUnderTest) -> Callable[[str, int], None]:
    """``skewed_clock(host, ms)``: the wall clock of a client, or of the broker ``b``, jumps."""
    return broker_under_test.skew


@pytest.fixture
def stalled_link(broker_under_test: BrokerUnderTest) -> Callable[..., AbstractContextManager[None]]:
    """``with stalled_link(client, toward="both"):`` nothing passes, nothing is lost, nobody is told."""
    return broker_under_test.stalled


@pytest.fixture
def history(broker_under_test: BrokerUnderTest) -> Callable[[], History]:
    """``history()``: everything is healed and drained; what happened, event by event (docs/history.md)."""
    return broker_under_test.finish


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Judge what the test did, when it has ended well."""
    wanted = _requirements(item)
    under_test = item.stash.get(_TEST, None)
    if under_test is None:
        yield
        return
    from brokerproof.chaos.tools import ToolMissing
    from brokerproof.conformance.running.under_test import NotOffered

    try:
        yield
    except ToolMissing as error:
        _not_run(error)
    except NotOffered as error:
        pytest.skip(f"not applicable: {error}")
    except AssertionError as error:
        if wanted:
            _conclude(
                item, under_test, wanted, f"\n\nThe test itself failed before: {str(error).partition(chr(10))[0]}"
            )
        raise
    if wanted:
        _judge(item, under_test, wanted)


def _not_run(error: Exception) -> NoReturn:
    """Here it is said that a tool is missing; under CI that is a failure."""
    from brokerproof.conformance.experiment.exits import under_ci

    if under_ci():
        pytest.fail(f"not run: {error}", pytrace=False)
    pytest.skip(f"not run: {error}")


def _conclude(item: pytest.Item, under_test: BrokerUnderTest, wanted: list[str], more: str = "") -> list[Verdict]:
    """What the judge says. Raises ``RequirementFailure`` for what is violated, with ``more`` at the end of its text."""
    from brokerproof.conformance.running.failure import RequirementFailure
    from brokerproof.conformance.running.items import report_results
    from brokerproof.conformance.running.under_test import conclude

    result = under_test.judge(item.nodeid, wanted)
    report_results([result], item.user_properties)
    try:
        return conclude(result, wanted, Path(item.config.getoption("--brokerproof-out")))
    except RequirementFailure as failure:
        raise RequirementFailure(failure.headline, f"{failure}{more}") from None


def _judge(item: pytest.Item, under_test: BrokerUnderTest, wanted: list[str]) -> None:
    from brokerproof.conformance.experiment.verdict import VerdictKind
    from brokerproof.conformance.running.failure import RequirementFailure

    said = _conclude(item, under_test, wanted)
    unmet = [one.requirement for one in said if one.verdict is VerdictKind.NOT_EXERCISED]
    if unmet:
        text = f"{', '.join(unmet)}: not exercised: the test never creates the situation"
        raise RequirementFailure(text, text)
    for verdict in said:
        if verdict.verdict is not VerdictKind.SATISFIED:
            pytest.skip(f"{verdict.requirement}: {verdict.verdict.value}: {verdict.text}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure's summary line is the requirement and what was observed."""
    report = yield
    if call.when == "call" and call.excinfo is not None and report.failed:
        _head(report, call.excinfo.value, _requirements(item))
    return report


def _head(report: pytest.TestReport, error: BaseException, requirements: list[str]) -> None:
    crash = getattr(report.longrepr, "reprcrash", None)
    headline = getattr(error, "headline", "")
    if crash is None:
        return
    if headline:
        # The text tells more than where in our code it was raised.
        report.longrepr = _told(str(error), crash.path, crash.lineno, headline)  # type: ignore[assignment]
    elif requirements:
        crash.message = f"{', '.join(requirements)}: {crash.message}"


def _told(text: str, path: str, line: int, summary: str) -> object:
    """A failure as pytest shows it, here and by way of a worker: a text without a traceback, a summary line."""
    from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprFileLocation, ReprTraceback

    traceback = ReprTraceback([ReprEntryNative([text + "\n"])], None, "native")
    return ExceptionChainRepr([(traceback, ReprFileLocation(path, line, summary), None)])
