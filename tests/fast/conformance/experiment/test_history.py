"""Histories: reading what anybody wrote, refusing what is wrong with the line and the value."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from brokerproof.conformance.experiment.history import FORMAT, Event, json_schemas
from brokerproof.conformance.experiment.history_file import HistoryError, parse_history, read_history
from brokerproof.conformance.running.engine import run_seed

ROOT = Path(__file__).resolve().parents[4]
HEADER = json.dumps({"format": FORMAT, "broker": "x 1"}).encode() + b"\n"


DOCUMENT = (ROOT / "docs" / "history.md").read_text(encoding="utf-8")


def line(**fields: object) -> bytes:
    return (
        json.dumps({"seq": 1, "t0": 0, "t1": 0, "host": "b", "kind": "phase", "name": "work"} | fields).encode() + b"\n"
    )


def test_a_run_round_trips_through_its_file(tmp_path: Path) -> None:
    history = run_seed(5).history
    assert history is not None
    history.write(tmp_path / "h.jsonl")
    again = read_history(tmp_path / "h.jsonl")
    assert again.encode() == history.encode()
    assert again.header == history.header


def test_the_document_names_every_kind_and_field() -> None:
    rows: dict[str, str] = {}
    for row in DOCUMENT.splitlines():
        if row.startswith("| `"):
            kinds, words = row.removeprefix("|").split("|", 1)
            rows |= dict.fromkeys(re.findall(r"`(\w+)`", kinds), words)
    everybody = {*Event.__struct_fields__, "refusal"}
    assert all(f"`{name}`" in DOCUMENT for name in everybody)
    for kind in Event.__subclasses__():
        tag = str(kind.__struct_config__.tag)
        missing = [name for name in kind.__struct_fields__ if name not in everybody and f"`{name}`" not in rows[tag]]
        assert missing == [], tag


def test_every_line_fits_the_published_schema() -> None:
    schemas = json_schemas()
    history = run_seed(11).history
    assert history is not None
    lines = history.encode().splitlines()
    header, event = (Draft202012Validator(schemas[name]) for name in ("header", "event"))
    header.validate(json.loads(lines[0]))
    for encoded in lines[1:]:
        event.validate(json.loads(encoded))
    assert not event.is_valid({"kind": "phase", "seq": 1, "t0": 0, "t1": 0, "host": "b", "name": "lunch"})


def test_the_schema_file_is_up_to_date() -> None:
    assert json.loads((ROOT / "docs/history.schema.json").read_text()) == json_schemas()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "h: is empty; the first line must be a header"),
        (b"[]\n", "h:1: not a history header"),
        (
            b'{"format": "x/2", "broker": "y"}\n',
            "h:1: format is 'x/2'; this release reads 'brokerproof/history/2' and 1",
        ),
        (HEADER + b"nonsense\n", "h:2: not an event: .*; it reads 'nonsense'"),
        (HEADER + line(kind="sned"), "h:2: not an event: Invalid value 'sned'"),
        (HEADER + line(extra=1), "h:2: not an event: Object contains unknown field `extra`"),
        (HEADER + line(t0=5, t1=4), "h:2: t1=4 is before t0=5"),
        (HEADER + line(t1=9) + line(seq=2, t1=8), r"h:3: t1=8 is before the line above \(t1=9\)"),
        (HEADER + line(seq=3) + line(seq=3), r"h:3: seq=3 does not rise \(line above: 3\)"),
        (HEADER + b"\xff\xfe{}\n", "h:2: not an event"),
    ],
)
def test_bad_histories_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(HistoryError, match=message):
        parse_history(data, "h")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"nothing\.jsonl: cannot be read"):
        read_history(tmp_path / "nothing.jsonl")
