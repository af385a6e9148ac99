"""The log: order and level, one line per entry, machines and people."""

from __future__ import annotations

import io
import json

import pytest

from brokerproof.reference_broker.server.log import LogWriter

WALL_MS = 1_340_730_835_712


@pytest.mark.parametrize(("level", "count"), [("DEBUG", 3), ("INFO", 2), ("WARN", 1)])
def test_the_level_decides_what_is_written(level: str, count: int) -> None:
    stream = io.StringIO()
    log = LogWriter(stream, lambda: WALL_MS, level)
    for each in ("DEBUG", "INFO", "WARN"):
        log.write(each, "text", "logger")
    assert len(stream.getvalue().splitlines()) == count


def test_a_line_reads_as_activemq_writes_it() -> None:
    stream = io.StringIO()
    text = "30000 ms elapsed since last read check."
    logger = "org.apache.activemq.transport.AbstractInactivityMonitor"
    LogWriter(stream, lambda: WALL_MS, "DEBUG").write("DEBUG", text, logger)
    assert stream.getvalue() == f"2012-06-26T17:13:55.712Z | DEBUG | {text} | {logger}\n"


@pytest.mark.parametrize("style", ["text", "json"])
def test_an_entry_is_one_line(style: str) -> None:
    stream = io.StringIO()
    LogWriter(stream, lambda: WALL_MS, "INFO", style).write("INFO", 'a\nb "c" ü', "logger")
    assert stream.getvalue().count("\n") == 1


def test_json_has_the_same_fields() -> None:
    stream = io.StringIO()
    LogWriter(stream, lambda: WALL_MS, "INFO", "json").write("WARN", 'a\nb "c" ü', "logger")
    assert json.loads(stream.getvalue()) == {
        "time": "2012-06-26T17:13:55.712Z",
        "level": "WARN",
        "logger": "logger",
        "text": 'a\nb "c" ü',
    }
