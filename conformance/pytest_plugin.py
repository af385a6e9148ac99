"""pytest plugin: ``pytest --pyargs brokerproof.conformance`` judges a broker.

Rules:

* Options begin with ``--brokerproof-``: short names such as ``--broker`` belong to other plugins.
* An item is a corpus program, a shard of seeds or a state machine. It carries its verdicts in ``user_properties``,
  which pytest-xdist brings to the controller; there they are joined, so that ``-n 2`` and ``-n 0`` end with the same
  verdict digest.
* A violated requirement fails its item with the text of DESIGN section 8. A *not run* program is a skip locally and a
  failure under CI=true.
"""

from __future__ import annotations

import msgspec
import pytest

from brokerproof.conformance.experiment.verdict import Verdict, concluded, join_all
from brokerproof.conformance.running.items import EXAMPLES, OUT, PROPERTY, ItemVerdicts

#: For somebody's own tests.
pytest_plugins = ["brokerproof.conformance.running.fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Our options."""
    group = parser.getgroup("brokerproof", "message broker conformance")
    group.addoption(
        "--brokerproof-broker", default="reference", metavar="BROKER", help="a name, a profile (FILE.toml) or a URL"
    )
    group.addoption(
        "--brokerproof-tier", default="simulated", choices=["simulated", "live", "both"], help="which worlds"
    )
    group.addoption("--brokerproof-programs", type=int, default=300, metavar="N", help="seeded programs (default 300)")
    group.addoption("--brokerproof-seed", type=int, default=0, metavar="S", help="first seed; that of the machines")
    group.addoption(
        "--brokerproof-examples", type=int, default=EXAMPLES, metavar="N", help=f"programs per machine ({EXAMPLES})"
    )
    group.addoption(
        "--brokerproof-out", default=OUT, metavar="DIR", help=f"where machines save programs that fail ({OUT})"
    )
    group.addoption(
        "--brokerproof-requirement", default=None, metavar="GLOB", help="judge only these, for example 'DLY-*'"
    )
    group.addoption("--brokerproof-mutant", default=None, metavar="ID", help="plant this defect")


def pytest_configure(config: pytest.Config) -> None:
    """Collect results on the controller only. Raises ``pytest.UsageError`` for a requirement or mutant that is none."""
    _check(config.getoption("--brokerproof-requirement"), config.getoption("--brokerproof-mutant"))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collector(), "brokerproof-collector")


def _check(requirement: str | None, mutant: str | None) -> None:
    if requirement is None and mutant is None:
        return  # most test runs are about something else, and need none of this
    from brokerproof.conformance.mutants import check_mutant
    from brokerproof.conformance.requirements.catalogue import default_catalogue

    try:
        check_mutant(mutant)
        default_catalogue().select(requirement)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


class Collector:
    """Joins what the items report, and prints the end of the story."""

    def __init__(self) -> None:
        self.digests: list[str] = []
        self.cells: dict[str, Verdict] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take an item's verdicts from its report."""
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == PROPERTY:
                item = msgspec.json.decode(str(value), type=ItemVerdicts)
                self.digests += item.digests
                self.cells = join_all([*self.cells.values(), *item.cells])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Counts per verdict and the digest."""
        if not self.digests:
            return
        from brokerproof.conformance.experiment.results import combined_digest
        from brokerproof.conformance.requirements.catalogue import default_catalogue

        counts: dict[str, int] = {}
        levels = {requirement.id: requirement.level for requirement in default_catalogue()}
        for joined in self.cells.values():
            cell = concluded(joined, levels[joined.requirement])
            counts[cell.verdict.value] = counts.get(cell.verdict.value, 0) + 1
        terminalreporter.section("brokerproof")
        terminalreporter.line("  ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        terminalreporter.line(f"verdict digest: {combined_digest(self.digests)}")
