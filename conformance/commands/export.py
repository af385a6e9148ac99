"""``brokerproof export``: a program as a reproducer that needs nothing of ours (docs/export.md)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from brokerproof.conformance.commands.replay import read_named
from brokerproof.conformance.experiment.exits import OK, UsageError
from brokerproof.conformance.experiment.results import REFERENCE
from brokerproof.conformance.export.junit import junit_file
from brokerproof.conformance.export.script import Script, resolved
from brokerproof.conformance.export.stomp import pytest_file, stomp_file
from brokerproof.conformance.export.target import Target, target
from brokerproof.conformance.export.told import Told, told
from brokerproof.conformance.requirements.catalogue import default_catalogue

FORMATS: dict[str, Callable[[Script, Told], str]] = {"junit": junit_file, "stomp": stomp_file, "pytest": pytest_file}


def main(argv: Sequence[str]) -> int:
    """Write a program as a JUnit test, a STOMP transcript or a pytest file."""
    parser = argparse.ArgumentParser(prog="brokerproof export", description=__doc__)
    parser.add_argument("program", metavar="PROGRAM", help="a program.json, or the name of a corpus program")
    parser.add_argument(
        "--as", dest="format", choices=list(FORMATS), required=True, help="JUnit 4, a script over STOMP, or pytest"
    )
    parser.add_argument(
        "--broker",
        default=REFERENCE,
        metavar="BROKER",
        help="a name, NAME@RELEASE or a profile; its words and settings",
    )
    parser.add_argument(
        "--requirement", metavar="ID", help="what is asserted (default: the broker's known deviations in this program)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where it goes (default: printed)")
    options = parser.parse_args(argv)
    name, program = read_named(options.program)
    broker = target(options.broker)
    script = resolved(name, program)
    text = FORMATS[options.format](script, told(script, broker, _requirements(name, broker, options.requirement)))
    if options.out is None:
        sys.stdout.write(text)
        return OK
    try:
        options.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {options.out}: cannot be written ({error.strerror})") from None
    sys.stdout.write(f"{options.out}: {len(text.splitlines())} lines\n")
    return OK


def _requirements(name: str, broker: Target, chosen: str | None) -> list[str]:
    """The requirements to assert."""
    if chosen is not None:
        return list(default_catalogue().select(chosen))
    known = list(dict.fromkeys(one.requirement for one in broker.known().deviations if name in one.programs))
    if not known:
        raise UsageError(f"{broker.label} has no known deviation in {name}; say what to assert: --requirement DLY-001")
    return known
