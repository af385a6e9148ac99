"""The command line: a table of commands, each loaded only when it is called, so that ``--help`` answers at once.

Nothing of ours is imported at the top but two leaves; a command is ``"module:function"`` with ``function(argv) -> exit
code``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module, metadata

from brokerproof.conformance.experiment.exits import OK, USAGE, Command, guarded

#: command -> (what loads it, below ``brokerproof``; one line of help). The order is the order of ``--help``.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("reports.commands.run:main", "run the conformance suite against a broker and write the report"),
    "list": ("conformance.commands.list:main", "show the requirements, programs, mutants or brokers"),
    "replay": ("conformance.commands.replay:main", "run one program file, corpus program or seed again"),
    "export": (
        "conformance.commands.export:main",
        "a program as a reproducer that needs nothing of ours",
    ),
    "judge": ("conformance.commands.judge:main", "run all rules on a history.jsonl written by anybody"),
    "mutants": (
        "conformance.commands.mutants:main",
        "prove that every rule can fail: plant each defect and find it",
    ),
    "coverage": (
        "conformance.commands.coverage:main",
        "which requirements, situations and features random programs meet, and the rarest",
    ),
    "profile": (
        "conformance.commands.profile:main",
        "describe a broker of one's own in a file, and prove each line of it",
    ),
    "agent": (
        "conformance.commands.agent:main",
        "prove that an agent of one's own keeps the protocol",
    ),
    "matrix": ("reports.commands.matrix:main", "every broker that can be had here, as columns of one report"),
    "bisect": ("reports.commands.bisect:main", "the first release of a broker that deviates from a requirement"),
    "parity": (
        "conformance.commands.parity:main",
        "compare the simulated and the live world on the reference broker",
    ),
    "nightly": ("reports.commands.nightly:main", "a night of tests within a budget, that remembers the nights before"),
    "campaign": ("reports.commands.campaign:main", "large randomized runs on Spark"),
    "ingest": ("reports.commands.ingest:main", "add reports and histories from anywhere to the store of campaigns"),
    "sql": ("reports.commands.sql:main", "ask everything that was ever run, in SQL"),
    "compare": ("reports.commands.compare:main", "what changed from one campaign of a store to another"),
    "trends": ("reports.commands.compare:trends_main", "how the campaigns of a store went over time, a line each"),
    "plots": ("reports.commands.plots:main", "one page of plots of a campaign"),
    "serve": ("conformance.commands.serve:main", "serve STOMP and OpenWire from the reference broker"),
    "password": (
        "reference_broker.security.command:main",
        "make a password hash for the broker's configuration",
    ),
    "mqsc": ("conformance.commands.mqsc:main", "check commands for a queue manager, and show what they do"),
    "diagnose": ("reports.commands.diagnose:main", "ask a running broker why consumers get nothing"),
    "clocks": (
        "conformance.operating.clocks:main",
        "measure a broker's clock and say which time to live is safe",
    ),
    "doctor": (
        "conformance.commands.doctor:main",
        "probe what works on this machine; --install builds what is missing",
    ),
    "story": ("reports.commands.story:main", "tell an incident of the founding documents, sick and cured"),
    "report": ("reports.commands.report:main", "write the reports of an earlier run again"),
    "diff": ("reports.commands.diff:main", "what changed from one report to another"),
    "completion": ("conformance.commands.completion:main", "make a shell complete commands and their options"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the ``brokerproof`` script."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        sys.stdout.write(usage())
        return OK
    if arguments[0] in {"-V", "--version"}:
        sys.stdout.write(f"brokerproof {version()}\n")
        return OK
    name = arguments[0]
    if name not in COMMANDS:
        sys.stderr.write(f"brokerproof: {name!r} is not a command; one of {', '.join(COMMANDS)}\n")
        return USAGE
    return guarded(name, _loading(COMMANDS[name][0]), arguments[1:])


def _loading(target: str) -> Command:
    """A command that is loaded when it is called, so that its import errors are reported like its own."""

    def command(argv: Sequence[str]) -> int:
        return _load(target)(argv)

    return command


def _load(target: str) -> Command:
    module, function = target.split(":")
    command: Command = getattr(import_module(f"brokerproof.{module}"), function)
    return command


def usage() -> str:
    """The text of ``--help``."""
    lines = [
        "usage: brokerproof COMMAND [OPTIONS]",
        "",
        "Property-based conformance and chaos suite for message brokers.",
        "",
        "commands:",
        *(f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items()),
        "",
        "`brokerproof COMMAND --help` shows a command's options.",
        "exit codes: 0 nothing violated beyond what is known; 1 something violated; 2 bad usage;",
        "            3 more inconclusive than allowed, or a MUST fell silent; 4 the suite or its environment failed",
    ]
    return "\n".join(lines) + "\n"


def version() -> str:
    """The installed version; ``unknown`` in a checkout that was never installed."""
    try:
        return metadata.version("brokerproof")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"
