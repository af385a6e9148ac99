"""``brokerproof agent``: prove that somebody's agent keeps the protocol (docs/agents.md), claim by claim."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from brokerproof.conformance.brokers import check_broker, make_adapter
from brokerproof.conformance.experiment.exits import OK, VIOLATED, UsageError
from brokerproof.conformance.experiment.results import REFERENCE
from brokerproof.conformance.worlds.live.examining import Examination, Via
from brokerproof.conformance.worlds.live.laboratory import Laboratory


def main(argv: Sequence[str]) -> int:
    """``check COMMAND…`` starts the agent several times and talks with it; exit code 1 if anything it says is wrong."""
    usage = "brokerproof agent check [--broker WHO] [--via {stomp,jms}] COMMAND ..."
    parser = argparse.ArgumentParser(prog="brokerproof agent", usage=usage, description=__doc__)
    parser.add_argument("verb", choices=["check"], help="prove each claim of the protocol")
    parser.add_argument(
        "--broker",
        default=REFERENCE,
        metavar="WHO",
        help="a broker that is trusted, as for `run` (default: the reference broker)",
    )
    parser.add_argument(
        "--via", choices=["stomp", "jms"], default="stomp", help="whose address the agent is told (default stomp)"
    )
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="the agent's command, last")
    end = _end_of_ours(argv)
    options = parser.parse_args(argv[:end])
    words = [word for place, word in enumerate(argv[end:]) if place or word != "--"]
    if not words:
        raise UsageError("there is no command; give the agent's last, for example: brokerproof agent check ./my-agent")
    program = shutil.which(words[0])
    if program is None:
        raise UsageError(f"{words[0]!r} is no program that can be started here; give its path")
    check_broker(options.broker)
    # It is started in a folder of its own.
    files = [str(Path(word).absolute()) if Path(word).is_file() else word for word in words[1:]]
    return _check(options.broker, options.via, [str(Path(program).absolute()), *files])


def _end_of_ours(argv: Sequence[str]) -> int:
    """Where the agent's command begins; its options are its own."""
    end = 1
    while end < len(argv) and argv[end].startswith("--") and argv[end] != "--":
        end += 1 if "=" in argv[end] or argv[end] == "--help" else 2
    return end


def _check(broker: str, via: Via, words: Sequence[str]) -> int:
    worst = OK
    with contextlib.ExitStack() as stack:
        adapter = stack.enter_context(contextlib.closing(make_adapter(broker)))
        laboratory = stack.enter_context(Laboratory())
        examination = stack.enter_context(contextlib.closing(Examination(laboratory, adapter, words, via)))
        for proof in examination.run():
            sys.stdout.write(f"{proof.state:<10}  {proof.line}: {proof.text}\n")
            sys.stdout.flush()
            worst = VIOLATED if proof.state == "wrong" else worst
    return worst
