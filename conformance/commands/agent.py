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
    parser = argparse.ArgumentParser(prog="brokerproof agent", description=__doc__)
    check = parser.add_subparsers(metavar="VERB", required=True).add_parser("check", help="prove each claim")
    check.add_argument(
        "--broker",
        default=REFERENCE,
        metavar="WHO",
        help="a broker that is trusted, as for `run` (default: the reference broker)",
    )
    check.add_argument(
        "--via", choices=["stomp", "jms"], default="stomp", help="whose address the agent is told (default stomp)"
    )
    check.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the agent's command, last")
    options = parser.parse_args(argv)
    words = [word for place, word in enumerate(options.command) if place or word != "--"]
    if not words:
        raise UsageError("there is no command; give the agent's last, for example: brokerproof agent check ./my-agent")
    program = shutil.which(words[0])
    if program is None:
        raise UsageError(f"{words[0]!r} is no program that can be started here; give its path")
    check_broker(options.broker)
    return _check(options.broker, options.via, [str(Path(program).absolute()), *words[1:]])


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
