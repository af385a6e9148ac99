"""The HTML report: offline, complete without a script, and every cell leads to a page that says why."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from brokerproof.conformance.experiment.results import RunFinished, SuiteFinished, SuiteStarted
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.reports.commands.suite_report import ReportWriter
from brokerproof.reports.render.formats import render_all
from brokerproof.reports.render.words import LOOKS
from brokerproof.reports.store.schema import Report
from tests.fast.reports.store import samples

PAGE = "cells/reference/DLY-003.html"


class Page(HTMLParser):
    """What a page loads and links to, its text, and whether its tags are balanced."""

    VOID = ("meta", "link", "br", "rect", "line", "circle", "polyline", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a":
            self.links.append(values.get("href") or "")
        self.loads += [values[name] or "" for name in ("src", "data", "srcset") if name in values]
        if tag == "link":
            self.loads.append(values.get("href") or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open, f"</{tag}> closes nothing"
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in {"style", "script"}:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All visible text, blanks collapsed."""
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture(scope="module")
def every_verdict(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every verdict, drawn once."""
    folder = tmp_path_factory.mktemp("report")
    writer = ReportWriter(folder, samples.catalogue())
    writer.handle(SuiteStarted(["reference", "odd <b>roker"], ["DLY-003", "DLY-004", "EXP-001"], 9))
    verdicts = [samples.early(), samples.kept("DLY-004"), Verdict("EXP-001", VerdictKind.NOT_EXERCISED)]
    writer.handle(RunFinished(samples.result("seed-1", verdicts, seed=1)))
    for name, kind in enumerate((VerdictKind.NOT_RUN, VerdictKind.KNOWN_FAILURE, VerdictKind.INCONCLUSIVE)):
        requirement = ("DLY-003", "DLY-004", "EXP-001")[name]
        verdict = Verdict(requirement, kind, witness=[9], text=f"because of {kind.value} & <more>")
        writer.handle(RunFinished(samples.result(f"corpus {name}", [verdict], broker="odd <b>roker", world="live")))
    writer.handle(SuiteFinished("sha256:" + "0" * 64, 1.5))
    return folder


@pytest.fixture
def folder(every_verdict: Path, tmp_path: Path) -> Path:
    """A copy of it, to change."""
    return shutil.copytree(every_verdict, tmp_path / "report")


def pages(folder: Path) -> list[Path]:
    """All pages."""
    return sorted(folder.rglob("*.html"))


def load(folder: Path, name: str) -> Page:
    """One page, parsed."""
    return Page((folder / name).read_text(encoding="utf-8"))


def test_pages_load_nothing_from_anywhere(folder: Path) -> None:
    assert len(pages(folder)) == 7
    for path in pages(folder):
        text = path.read_text(encoding="utf-8")
        assert [load for load in Page(text).loads if not load.startswith("data:")] == []
        assert "default-src 'none'" in text
        addresses = set(re.findall(r"https?://[^\s'\"<>]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path
        assert "url(" not in text
        assert "@import" not in text


def test_every_link_leads_somewhere(folder: Path) -> None:
    for path in pages(folder):
        for link in Page(path.read_text(encoding="utf-8")).links:
            target = link.split("#", 1)[0]
            assert target == "" or (path.parent / target).is_file(), f"{path.name}: {link}"


def test_every_cell_is_told_by_symbol_and_word_and_leads_to_its_page(folder: Path) -> None:
    index = load(folder, "index.html")
    for kind in (VerdictKind.VIOLATED, VerdictKind.KNOWN_FAILURE, VerdictKind.NOT_RUN, VerdictKind.INCONCLUSIVE):
        assert re.search(rf"{LOOKS[kind].symbol} +{kind.value}", index.text), kind
    assert len({link for link in index.links if "cells/" in link}) == 6
    assert "MEM-009" in index.text, "planned requirements are listed"


def test_what_is_wrong_comes_before_what_was_not_tried_and_both_before_the_matrix(folder: Path) -> None:
    """A sentence with what was observed; a reason with its requirements, folded."""
    text = load(folder, "index.html").text
    wrong, reason, matrix = (
        text.index(samples.early().text),
        text.index("because of not run"),
        text.index("Requirement"),
    )
    assert wrong < reason < matrix
    assert "1 broken promise" in text[:wrong]
    raw = (folder / "index.html").read_text(encoding="utf-8")
    assert raw.index("<details") < raw.index("because of not run") < raw.index("</details>", raw.index("because of"))


def test_every_instant_of_the_drawing_can_be_reached(folder: Path) -> None:
    """What the script steps through is what the drawing shows, with a row to link to and every clock's reading."""
    page = (folder / "cells/reference/DLY-003.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="instants">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    instants = {one["seq"]: one for one in json.loads(found[1])}
    drawn = {int(seq) for seq in re.findall(r'class="event" data-seq="(\d+)"', page)}
    assert drawn
    assert drawn <= set(instants)
    for seq, one in instants.items():
        assert f'id="e{seq}"' in page
        assert set(one["times"]) == {"", *one["walls"]}
    ends = {int(seq) for seq in re.findall(r'data-(?:start|end)="(\d+)"', page)}
    assert ends <= drawn
    skewed = next(one for one in instants.values() if len(set(one["times"].values())) > 1)
    assert skewed["walls"]


def test_the_matrix_is_complete_without_a_script(folder: Path) -> None:
    text = (folder / "index.html").read_text(encoding="utf-8")
    without = Page(re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL))
    for ident in ("DLY-003", "DLY-004", "EXP-001"):
        assert ident in without.text
    assert 'hidden=""' not in text
    assert not re.search(r"<tr[^>]*\shidden", text)


def test_nothing_from_outside_becomes_markup(folder: Path) -> None:
    for path in pages(folder):
        text = path.read_text(encoding="utf-8")
        assert "<b>roker" not in text
        assert "<say>" not in text
        assert "<more>" not in text
    assert "odd <b>roker" in load(folder, "index.html").text


def test_evidence_page_tells_the_whole_story(folder: Path) -> None:
    page = load(folder, PAGE)
    for wanted in (
        "The promise DLY-003 is kept, whatever the clocks of the hosts <say> & however they jump.",
        "on-or-after",
        "early observed, a violation",
        "p0/1 arrived 998.9 ms after it was accepted",
        "missed by 1.1 ms",
        "broker (reference, simulated world)",
        "Run the delay on elapsed time from acceptance",
        "a consumer was idle at the due time (not met)",
        "brokerproof replay evidence/reference/simulated-seed-1/program.json",
        "p0 sends p0/1 to q0",
        "the wall clock of b jumps by +1 h",
        "2027-01-15 09:00:00.999",
        "time to live 2 min",
        "seed 004, sentence 12; Jakarta Messaging 3.1, 7.9",
    ):
        assert wanted in page.text, wanted


def test_clocks_are_drawn_side_by_side(folder: Path) -> None:
    text = (folder / PAGE).read_text(encoding="utf-8")
    assert re.findall(r'class="host"[^>]*>(\w+)<', text) == ["b", "p0", "c0"]
    assert re.findall(r'class="offset"[^>]*>([^<]+)<', text) == ["right", "+1 h", "\u22125 min", "right"]
    assert re.findall(r'class="seq"[^>]*>#(\d+)<', text) == ["7", "14"]
    assert text.count('class="ring"') == 2
    assert text.count('class="guide"') == 2
    assert text.count('class="stall"') == 1


def test_markup_is_balanced(folder: Path) -> None:
    for path in pages(folder):
        assert Page(path.read_text(encoding="utf-8")).open == [], path


def test_a_page_without_its_evidence_says_so(folder: Path) -> None:
    (folder / "evidence/reference/simulated-seed-1/history.jsonl").unlink()
    render_all(folder, _report(folder))
    page = load(folder, PAGE)
    assert "The evidence cannot be shown." in page.text
    assert "run the suite again" in page.text
    assert "998.9 ms" in page.text, "the verdict itself is still there"


def test_pages_of_vanished_cells_are_removed(folder: Path) -> None:
    stale = folder / "cells/gone/DLY-003.html"
    stale.parent.mkdir()
    stale.write_text("old", encoding="utf-8")
    mine = folder / "notes.html"
    mine.write_text("mine", encoding="utf-8")
    render_all(folder, _report(folder))
    assert not stale.exists()
    assert mine.exists()


def test_both_colour_schemes_and_print_are_served(folder: Path) -> None:
    text = (folder / "index.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def _report(folder: Path) -> Report:
    from brokerproof.reports.store.schema import read_report

    return read_report(folder)
