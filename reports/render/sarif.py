"""``report.sarif`` for code scanning: what is broken, each with its requirement as the rule (SARIF 2.1.0).

A MUST that is violated is an ``error``, a SHOULD or MAY that is not met a ``warning``, a known failure a ``note`` that
is suppressed. The place is the program that shows it, inside the report's folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from brokerproof.conformance.experiment.verdict import VerdictKind
from brokerproof.reports.store.evidence import FOLDER, PROGRAM
from brokerproof.reports.store.schema import Cell, Report

FILE = "report.sarif"
LEVELS = {VerdictKind.VIOLATED: "error", VerdictKind.NOT_MET: "warning", VerdictKind.KNOWN_FAILURE: "note"}


def write_sarif(folder: Path, report: Report) -> Path:
    """Write ``folder/report.sarif``."""
    path = folder / FILE
    results = [_result(cell) for cell in report.cells if cell.verdict.verdict in LEVELS]
    used = {result["ruleId"] for result in results}
    rules = [
        {
            "id": one.id,
            "shortDescription": {"text": one.sentence},
            "fullDescription": {"text": one.why or one.sentence},
            "help": {"text": one.remedy or one.sentence},
            "properties": {"level": one.level},
        }
        for one in report.requirements
        if one.id in used
    ]
    name, _, version = report.generator.partition(" ")
    driver = {"name": name, "version": version, "rules": rules}
    sarif = {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(sarif), indent=1) + b"\n")
    return path


def _result(cell: Cell) -> dict[str, Any]:
    text = (cell.example.verdict.text if cell.example else "") or cell.verdict.text or cell.verdict.verdict.value
    result: dict[str, Any] = {
        "ruleId": cell.requirement,
        "level": LEVELS[cell.verdict.verdict],
        "message": {"text": f"{cell.broker}: {text}"},
        "partialFingerprints": {"cell/v1": f"{cell.broker}/{cell.requirement}"},
    }
    if cell.example is not None:
        uri = f"{FOLDER}/{cell.example.evidence}/{PROGRAM}"
        result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": uri}}}]
    if cell.verdict.verdict is VerdictKind.KNOWN_FAILURE:
        result["suppressions"] = [{"kind": "external", "justification": cell.verdict.text or "known"}]
    return result
