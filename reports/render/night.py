"""A night for people and build servers: a terminal's text, ``night.md`` (a job's summary, too), JUnit's ``night.xml``.

Rules
* New failures come first, then what is open, flaky, gone; each with when it was first and last seen, the line that
  replays it, and in how many runs of tonight it showed.
* In JUnit only what turns the night red is a failure; the others are skipped, with the reason, so that a build server
  keeps a history of each and nobody takes them for passed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import msgspec

from brokerproof.reports.render.junit import clean, counted, write_suites
from brokerproof.reports.render.markdown import escape
from brokerproof.reports.store.nights import Failure, Night, State, Status

ORDER: Final[tuple[Status, ...]] = ("new", "open", "flaky", "gone")
#: Exit policy -> what turns a night red.
RED: Final[dict[str, tuple[Status, ...]]] = {"new": ("new",), "any": ("new", "open", "flaky"), "none": ()}


class NightReport(msgspec.Struct, frozen=True):
    """A night that ended: the state after it, its brokers (and why one was not tested), what turns it red."""

    state: State
    night: Night
    brokers: list[str]
    missing: dict[str, str]
    reds: tuple[Status, ...]

    def failures(self, broker: str = "") -> list[tuple[Status, Failure]]:
        """Of one broker, or of all that were tested, in the order in which they are told."""
        found = [
            (one.status(self.night.id), one)
            for one in self.state.failures
            if one.found.broker in ([broker] if broker else self.brokers)
        ]
        return sorted(found, key=lambda entry: (ORDER.index(entry[0]), entry[1].found.key))

    def red(self) -> list[Failure]:
        """What turns the night red: seen tonight, and not excused by the exit policy."""
        return [one for status, one in self.failures() if self.is_red(status, one)]

    def is_red(self, status: Status, failure: Failure) -> bool:
        """Whether a failure does."""
        return status in self.reds and failure.last == self.night.id

    def stages(self, broker: str) -> dict[str, int]:
        """Stage -> programs that ran."""
        return {
            name.rpartition(" ")[2]: programs
            for name, programs in self.night.programs.items()
            if name.rpartition(" ")[0] == broker
        }


def night_text(told: NightReport) -> str:
    """For the terminal."""
    lines = [_head(told), *(f"{broker}: {_ran(told, broker)}" for broker in told.brokers)]
    for status, one in told.failures():
        lines.append(f"{status:<6} {one.found.what} on {_label(one)}, {_when(one)}: {one.found.text}")
        lines.append(f"       {one.found.replay}")
    counts = [sum(status == kind for status, _ in told.failures()) for kind in ORDER]
    words = ", ".join(f"{count} {kind}" for kind, count in zip(ORDER, counts, strict=True))
    return "\n".join([*lines, words, ""])


def write_night(folder: Path, told: NightReport, summary: str | None = None) -> None:
    """Write ``night.md`` and ``night.xml``; append the former to a job's ``summary`` (a file), where there is one."""
    text = "\n".join(_markdown(told)) + "\n"
    (folder / "night.md").write_text(text, encoding="utf-8")
    write_suites(folder / "night.xml", [_suite(told, broker) for broker in told.brokers])
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)


def _markdown(told: NightReport) -> list[str]:
    lines = ["## brokerproof nightly", "", _head(told), ""]
    lines += [f"- **{escape(broker)}**: {escape(_ran(told, broker))}" for broker in told.brokers]
    rows = told.failures()
    if not rows:
        return [*lines, "", "No failure is known, old or new."]
    lines += ["", "| | failure | broker | first night | last night | runs tonight | steps | |", "|" + "---|" * 8]
    for status, one in rows:
        shown = f"**{status}**" if told.is_red(status, one) else status
        cells = [shown, one.found.what, escape(_label(one)), one.first, one.last, _runs(one), str(one.found.steps)]
        lines.append(f"| {' | '.join(cells)} | {escape(one.found.text)} |")
    fresh = [one.found for status, one in rows if status == "new" and one.found.replay]
    return [*lines, "", "```", *(found.replay for found in fresh), "```"] if fresh else lines


def _suite(told: NightReport, broker: str) -> ET.Element:
    suite = ET.Element("testsuite", name=clean(broker), time=f"{told.night.seconds:.0f}")
    for stage, programs in told.stages(broker).items():
        ET.SubElement(suite, "testcase", classname="brokerproof.night", name=f"{stage}: {programs} programs")
    if broker in told.missing:
        case = ET.SubElement(suite, "testcase", classname="brokerproof.night", name="broker")
        ET.SubElement(case, "error", type="suite", message=clean(told.missing[broker]))
    for status, one in told.failures(broker):
        case = ET.SubElement(suite, "testcase", classname="brokerproof.failures", name=clean(one.found.what))
        words = f"{status}, {_when(one)}: {one.found.text}"
        if told.is_red(status, one):
            element = ET.SubElement(case, "failure", type=status, message=clean(words))
            element.text = clean(one.found.replay)
        else:
            ET.SubElement(case, "skipped", message=clean(words))
    return counted(suite)


def _head(told: NightReport) -> str:
    night, red = told.night, told.red()
    verdict = f"{len(red)} failures turn it red" if red else "nothing turns it red"
    return f"Night of {night.id}, {night.seconds / 60:.1f} min, seeds from {night.seed}: {verdict}."


def _ran(told: NightReport, broker: str) -> str:
    ran = [f"{stage} {programs:,}" for stage, programs in told.stages(broker).items()]
    missing = [f"not tested further: {told.missing[broker]}"] if broker in told.missing else []
    return ", ".join([*(ran or ["nothing was run"]), *missing])


def _label(failure: Failure) -> str:
    return failure.found.label or failure.found.broker


def _runs(failure: Failure) -> str:
    return f"{failure.found.shows} of {failure.found.of}"


def _when(failure: Failure) -> str:
    nights = "1 night" if failure.nights == 1 else f"{failure.nights} nights"
    return f"first {failure.first}, last {failure.last}, {nights}, {_runs(failure)} runs"
