"""``brokerproof mqsc``: carry out MQSC commands on an empty queue manager, or on a reference broker that is running,
and show what they show.

What it takes is what ``mqsc`` of a broker's configuration or of a program takes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from brokerproof.conformance.brokers.reference import Admin
from brokerproof.conformance.experiment.exits import OK, UsageError
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.mq.mqsc import MqscError
from brokerproof.reference_broker.jms.client import QueueManager


def main(argv: Sequence[str]) -> int:
    """Run the commands of a file, one to a line; lines that begin with ``*`` are remarks."""
    parser = argparse.ArgumentParser(prog="brokerproof mqsc", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="commands, one to a line; - is standard input")
    parser.add_argument("--admin", type=int, metavar="PORT", help="the admin port of a reference broker that runs here")
    options = parser.parse_args(argv)
    try:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{options.file} cannot be read: {error.strerror}") from None
    told = QueueManager(lambda: Now(0, 0)).mqsc if options.admin is None else partial(_told, options.admin)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("*"):
            continue
        try:
            shown = told(line)
        except MqscError as error:
            raise UsageError(f"{options.file}, line {number}: {error}") from None
        sys.stdout.write("".join(f"{one}\n" for one in shown))
    return OK


def _told(port: int, line: str) -> list[str]:
    """What a running broker shows. Raises ``MqscError`` or ``UsageError``."""
    try:
        admin = Admin(port)
        try:
            answer = admin.exchange(do="mqsc", command=line)
        finally:
            admin.close()
    except OSError as error:
        raise UsageError(f"no admin port answers at {port} ({error}); start the broker with --admin-port") from None
    if "fail" in answer:
        raise MqscError(answer["fail"]["text"])
    return [str(one) for one in answer["ok"].get("shown", [])]
