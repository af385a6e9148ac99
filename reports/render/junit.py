"""``junit.xml`` for build servers: a test suite per broker, a test case per judged requirement.

The mapping, because JUnit knows only three ends of a test:

* violated -> ``failure`` (type ``violated``), with the text of the failure and the replay line;
* satisfied -> passed;
* known failure, inconclusive, not run, not exercised, not applicable, planned -> ``skipped`` with the verdict as the
  first words of its message, so that none of them counts as passed;
* a failure of the suite itself -> an ``error`` in a test case of its own.

Rule: characters that XML 1.0 cannot hold are shown as ``U+0007``; a broker's text must not make the file unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from xml.etree import ElementTree as ET

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.reports.store.schema import Cell, Column, Report

FILE = "junit.xml"
_UNPRINTABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

FailureText = Callable[[Cell], str]


def write_junit(folder: Path, report: Report, failure: FailureText) -> Path:
    """Write ``folder/junit.xml``. ``failure`` gives the whole text for a violated cell."""
    return write_suites(folder / FILE, [_suite(report, column, failure) for column in report.columns])


def write_suites(path: Path, suites: Iterable[ET.Element]) -> Path:
    """Write a file of test suites, each ``counted``."""
    root = ET.Element("testsuites", name="brokerproof")
    root.extend(suites)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ET.indent(root)
    path.write_bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")
    return path


def counted(suite: ET.Element) -> ET.Element:
    """The same suite with its attributes that count."""
    ends = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    suite.set("tests", str(len(suite.findall("testcase"))))
    for name, end in ends.items():
        suite.set(name, str(len(suite.findall(f"testcase/{end}"))))
    return suite


def _suite(report: Report, column: Column, failure: FailureText) -> ET.Element:
    suite = ET.Element("testsuite", name=clean(column.broker), time=f"{column.elapsed_ms / 1000:.3f}")
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name="verdict digest", value=column.digest)
    sentences = {requirement.id: requirement.sentence for requirement in report.requirements}
    for cell in report.cells:
        if cell.broker == column.broker:
            suite.append(_case(cell, sentences.get(cell.requirement, ""), failure))
    for note in column.problems:
        case = ET.SubElement(suite, "testcase", classname=f"{_class(column.broker)}.suite", name=clean(note.run))
        ET.SubElement(case, "error", type="suite", message=clean(note.text))
    return counted(suite)


def _case(cell: Cell, sentence: str, failure: FailureText) -> ET.Element:
    verdict = cell.verdict
    classname = f"{_class(cell.broker)}.{cell.requirement[:3]}"
    case = ET.Element("testcase", classname=classname, name=clean(f"{cell.requirement} {sentence}"))
    if verdict.verdict is VerdictKind.VIOLATED:
        element = ET.SubElement(case, "failure", type="violated", message=clean(verdict.text or "violated"))
        element.text = clean(failure(cell))
    elif verdict.verdict is not VerdictKind.SATISFIED:
        message = f"{verdict.verdict.value}: {verdict.text}" if verdict.text else verdict.verdict.value
        ET.SubElement(case, "skipped", message=clean(message))
    return case


def _class(broker: str) -> str:
    """Build servers split class names at dots: a version number must not become a package."""
    return "brokerproof." + re.sub(r"[^A-Za-z0-9_-]+", "_", broker)


def clean(text: str) -> str:
    """Text that XML can hold."""
    return _UNPRINTABLE.sub(lambda found: f"U+{ord(found[0]):04X}", text)
