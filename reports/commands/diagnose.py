"""``brokerproof diagnose``: why do consumers get nothing, and what do in-flight counts mean? Asked of a running broker,
once, or again and again (``--watch``, until it is interrupted).

It reads the broker's management endpoint (Jolokia) for a few seconds and changes nothing. Exit codes: 0 no problem, 1 a
problem is there, 3 no problem is seen but a question could not be answered, 4 the broker does not answer. Those of
``--watch`` are about the last look.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.exits import OK, UsageError
from brokerproof.conformance.operating.addresses import HTTP, MANAGED, Address, address
from brokerproof.conformance.operating.diagnose import exit_code, questions, reached, see, text_of
from brokerproof.conformance.running.folder import make_folder

if TYPE_CHECKING:
    from rich.console import Console

    from brokerproof.conformance.operating.watching import Watch


def main(argv: Sequence[str]) -> int:
    """Look, answer, say what to do."""
    parser = argparse.ArgumentParser(prog="brokerproof diagnose", description=__doc__)
    parser.add_argument(
        "--broker",
        default="activemq",
        metavar="NAME|URL",
        help="activemq, reference, or the URL of a Jolokia endpoint (default: activemq at its default port)",
    )
    parser.add_argument("--json", action="store_true", help="one answer per line, as JSON")
    parser.add_argument("--watch", action="store_true", help="look again and again, and draw what changes")
    parser.add_argument("--html", type=Path, metavar="FILE", help="with --watch: write a page, too, after each look")
    options = parser.parse_args(argv)
    if options.html is not None and not options.watch:
        raise UsageError(f"--html {options.html} is drawn while watching; add --watch")
    if options.watch and options.json:
        raise UsageError("--json is for one look; leave out --watch")
    where = address(options.broker, MANAGED, HTTP)
    if options.watch:
        # Who looks once does not wait for what draws.
        from brokerproof.conformance.operating.watching import look_again, watched
        from brokerproof.reports.render.terminal import make_console

        if options.html is not None:
            make_folder(options.html.parent, "--html")
        looks = watched(lambda: reached(where, look_again), time.monotonic)
        return watch(where, looks, make_console(), options.html)
    sight = see(where)
    answers = questions(sight)
    if options.json:
        sys.stdout.writelines(json.dumps(answer.row(), ensure_ascii=False) + "\n" for answer in answers)
    else:
        sys.stdout.write(text_of(where, sight, answers))
    return exit_code(answers)


def watch(
    where: Address,
    looks: Iterator[Watch],
    console: Console,
    page: Path | None = None,
    now: Callable[[], float] = time.time,
) -> int:
    """Draw each look until there are no more, or the user has seen enough; what the last one amounts to."""
    from rich.live import Live

    from brokerproof.reports.render.watch import screen, write_page

    seen: Watch | None = None
    try:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            for seen in looks:
                live.update(screen(seen, where.shown), refresh=True)
                if page is not None:
                    write_page(page, seen, where.shown, now())
    except KeyboardInterrupt:
        pass
    return OK if seen is None else exit_code(seen.glances[-1].answers)
