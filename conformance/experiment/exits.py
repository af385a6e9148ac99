"""Exit codes, the same for every command (DESIGN section 8), and how an error becomes one.

An exception class that carries ``exit_code`` is an expected kind of trouble: its text is the whole message. Anything
else is a defect of ours: it is shown with its traceback and ends with code 4.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Final

OK: Final = 0
VIOLATED: Final = 1
USAGE: Final = 2
INCONCLUSIVE: Final = 3
SUITE: Final = 4

Command = Callable[[Sequence[str]], int]


class UsageError(Exception):
    """The user asked for something impossible. The text shows the value and the remedy."""

    exit_code = USAGE


class SuiteProblem(Exception):
    """The suite or its environment failed, not the broker. The text shows what and the remedy."""

    exit_code = SUITE


def guarded(name: str, command: Command, argv: Sequence[str]) -> int:
    """Run a command; turn its exceptions into one message on stderr and an exit code."""
    try:
        return command(argv)
    except SystemExit as error:
        # argparse: 0 after --help, 2 after bad usage.
        return error.code if isinstance(error.code, int) else USAGE
    except KeyboardInterrupt:
        sys.stderr.write(f"brokerproof {name}: interrupted\n")
        return SUITE
    except BrokenPipeError:
        _give_up_stdout()
        return OK
    except Exception as error:  # noqa: BLE001 - the border of the program: everything ends in a message and a code
        code = getattr(error, "exit_code", None)
        if not isinstance(code, int):
            traceback.print_exc()
            sys.stderr.write(f"brokerproof {name}: this is a defect of the suite, please report it\n")
            return SUITE
        sys.stderr.write(f"brokerproof {name}: {error}\n")
        return code


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Around printing when the exit code is known: a reader that goes away (``| head``) does not change it."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the latter is what rich makes of it
        _give_up_stdout()


def _give_up_stdout() -> None:
    """The reader of our output went away: nothing to say, and nothing more can be said."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def under_ci() -> bool:
    """Whether a missing tool must fail the run instead of being reported."""
    return os.environ.get("CI", "").lower() in {"1", "true"}
