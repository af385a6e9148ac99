"""``plots``: what the store holds of a campaign is drawn, and what it lacks is named."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from brokerproof.conformance.experiment.exits import OK, SUITE, USAGE, guarded
from brokerproof.conformance.experiment.history import Send
from brokerproof.conformance.generate.programs import program_for_seed
from brokerproof.conformance.worlds.simulated.world import SimulatedWorld
from brokerproof.reports.commands import ingest, plots
from brokerproof.reports.render.plots import PLOTS, draw
from brokerproof.reports.store.estimates import survival
from tests.fast.reports.store.test_tables import need_pyarrow
from tests.tools import not_run


@pytest.fixture(autouse=True)
def packages_are_here() -> None:
    """Everything below needs them."""
    need_pyarrow()
    for name in ("duckdb", "matplotlib"):
        if importlib.util.find_spec(name) is None:
            not_run(f"{name} is not installed (extra 'plots')")


def is_mortal(event: Send) -> bool:
    """Whether it was accepted with an expiration and no delay."""
    return event.result == "ok" and event.tx is None and event.expiration_ms > 0 and not event.delay_ms


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one history with messages that have an expiration, of which nothing else is known."""
    need_pyarrow()
    folder = tmp_path_factory.mktemp("plots")
    history = folder / "history.jsonl"
    runs = (SimulatedWorld(seed=seed).run(program_for_seed(seed)) for seed in range(400))
    next(run for run in runs if any(type(event) is Send and is_mortal(event) for event in run.events)).write(history)
    assert ingest.main([str(history), "--store", str(folder / "store")]) == OK
    return folder / "store"


def sections(page: Path) -> dict[str, str]:
    """Name of a plot -> what its section says, tags included."""
    parts = re.findall(r'<section id="(\w+)">(.*?)</section>', page.read_text(encoding="utf-8"), re.DOTALL)
    return dict(parts)


def test_a_page_shows_what_is_there_and_names_what_is_not(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert plots.main(["--store", str(store), "--out", str(page)]) == OK
    found = sections(page)
    assert list(found) == list(PLOTS)
    assert "<svg" in found["coverage"]
    assert "<svg" in found["lives"]
    assert "<svg" not in found["survival"]
    assert "campaign --mutant ID" in found["survival"]
    text = page.read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="https?:', text), "it needs no network"
    again = tmp_path / "again.html"
    assert plots.main(["--store", str(store), "--out", str(again)]) == OK
    assert again.read_text(encoding="utf-8") == text


def test_a_campaign_that_is_not_there_is_named(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["nothing", "--store", str(store), "--out", str(tmp_path / "page.html")]
    assert guarded("plots", plots.main, argv) == USAGE
    assert "'nothing' is no campaign of" in capsys.readouterr().err


def test_without_matplotlib_the_remedy_is_told(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    argv = ["--store", str(store), "--out", str(tmp_path / "page.html")]
    assert guarded("plots", plots.main, argv) == SUITE
    assert "pip install 'brokerproof[plots]'" in capsys.readouterr().err


def test_what_survived_counts_until_nobody_looked_on() -> None:
    """Worked by hand: of four, one is killed after 2 programs, one is lost sight of at 3, one killed after 5."""
    steps = survival([(2, True), (3, False), (5, True), (9, False)])
    assert [step.after for step in steps] == [2, 3, 5, 9]
    assert [step.share for step in steps] == pytest.approx([0.75, 0.75, 0.375, 0.375])
    assert steps[0].low == pytest.approx(0.75 - 1.96 * (0.75 * 0.25 / 4) ** 0.5)
    assert survival([(4, True)])[0].share == 0


def test_sentences_say_what_is_drawn() -> None:
    closes = [{"who": "broker", "idle": 1500.0, "period": 1000}, {"who": "client", "idle": 500.0, "period": 500}]
    assert "2 drawn closes for inactivity, after 1.00 to 1.50 periods" in draw("links", closes).says
    alive = [{"mutant": "a", "programs": 3, "killed": True}, {"mutant": "b", "programs": 9, "killed": False}]
    assert draw("survival", alive).says.startswith("1 of 2 planted defects")
    lives = [{"life": -5.0, "delivered": True}, {"life": -1.0, "delivered": False}, {"life": 9.0, "delivered": True}]
    assert "of 3 drawn 2 were dead at their acceptance; 1 of these" in draw("lives", lives).says
    counts = [{"at_rest": False, "count": -2, "readings": 4}, {"at_rest": True, "count": 0, "readings": 9}]
    assert draw("in_flight", counts).says == "Negative in 4 readings while things moved, and in 0 at rest."
    near = [{"requirement": "DLY-001", "runs": 2, "least": -0.5, "low": 1.0, "median": 2.0, "high": 3.0}]
    assert "Nearest: DLY-001 with -0.500 ms" in draw("slack", near).says
