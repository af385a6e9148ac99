"""``python -m tests.nightly [MINUTES]``: what takes longer than ``.ci/run``, within so many minutes.

Writes one log, brokerproof-out/nightly/log.txt, and prints it; output of the stages goes to the terminal. Exit code 1
if a stage failed or none could run, 2 for bad usage.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, date, datetime
from pathlib import Path

from brokerproof.reports.store.nights import first_seed
from tests.nightly.budget import exit_code, run_stages, summary
from tests.nightly.stages import stages

LOG = Path(__file__).parents[2] / "brokerproof-out/nightly/log.txt"


def main() -> int:
    """Run the stages that were asked for."""
    today = datetime.now(UTC).date()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", nargs="?", type=float, default=240, help="budget (default %(default)s)")
    parser.add_argument("--date", type=date.fromisoformat, default=today, help="seeds of that night (default today)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these stages; quote a name of two words")
    options = parser.parse_args()
    wanted = stages(options.date)
    unknown = sorted(set(options.only or ()) - {stage.name for stage in wanted})
    if unknown:
        parser.error(f"no stage {', '.join(unknown)}; there are {', '.join(stage.name for stage in wanted)}")
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("w", encoding="utf-8") as file:

        def log(line: str) -> None:
            text = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z {line}\n"
            for stream in (file, sys.stdout):
                stream.write(text)
                stream.flush()

        log(f"nightly: {options.minutes:g} min, seeds from {first_seed(options.date)} ({options.date})")
        chosen = [stage for stage in wanted if not options.only or stage.name in options.only]
        results = run_stages(chosen, options.minutes, log)
        for line in summary(results):
            log(line)
    return exit_code(results)


if __name__ == "__main__":
    sys.exit(main())
