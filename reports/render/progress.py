"""A progress bar on stderr for everything that takes over two seconds; a suite says a line every ``LINE_S`` seconds
where stderr is no terminal, anything else nothing.

Rule: the bar never touches stdout, so ``--json`` and pipes stay clean; it appears only after ``DELAY_S``, because a bar
that flashes is noise.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from brokerproof.conformance.experiment.results import RunFinished, SuiteEvent, SuiteFinished, SuiteStarted, Writer
from brokerproof.conformance.experiment.verdict import VerdictKind

#: Silence at the start, in seconds.
DELAY_S = 1.0
#: Between two lines where there is no terminal, in seconds.
LINE_S = 10.0
#: How much of that says nothing of the pace: what does not fit is done at once.
UNPACED_S = 1.0


class Bar:
    """A bar that counts to ``total``; a context manager. Off (and free) where there is no terminal."""

    def __init__(self, label: str, total: int | None, console: Console | None = None, delay_s: float = DELAY_S) -> None:
        self._console = console if console is not None else Console(stderr=True)
        self._label = label
        self._total = total
        self._done = 0
        self._start = time.monotonic()
        self._delay_s = delay_s
        self._progress: Progress | None = None
        self.enabled = self._console.is_terminal

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def advance(self, count: int = 1) -> None:
        """Count on."""
        self.reach(self._done + count)

    def reach(self, done: int, total: int | None = None) -> None:
        """Set the count, and the total where it has become known."""
        self._done = done
        self._total = total if total is not None else self._total
        if not self.enabled:
            return
        if self._progress is None:
            if time.monotonic() - self._start < self._delay_s:
                return
            self._progress = self._open()
        for task in self._progress.task_ids:
            self._progress.update(task, completed=self._done, total=self._total)

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _open(self) -> Progress:
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        progress.add_task(self._label, total=self._total, completed=self._done)
        progress.start()
        return progress


@contextlib.contextmanager
def waiting(label: str) -> Iterator[None]:
    """A spinner for what cannot be counted; with its own copy of stderr, which may be redirected meanwhile."""
    if not sys.stderr.isatty():
        yield
        return
    with (
        os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8") as screen,
        Console(file=screen, force_terminal=True).status(label),
    ):
        yield


class ProgressWriter(Writer):
    """The bar of a suite: one tick per finished run; lines where there is no terminal."""

    def __init__(self, label: str = "runs", console: Console | None = None, delay_s: float = DELAY_S) -> None:
        self._label = label
        self._console = console
        self._delay_s = delay_s
        self._bar: Bar | None = None
        self._done = 0
        self._ended = threading.Event()

    def handle(self, event: SuiteEvent) -> None:
        """Start, tick, stop."""
        if isinstance(event, SuiteStarted):
            self._bar = Bar(self._label, event.total or None, self._console, self._delay_s)
            if not self._bar.enabled:
                arguments = (event.total, event.first, time.monotonic())
                threading.Thread(target=self._lines, args=arguments, daemon=True).start()
        elif isinstance(event, RunFinished) and self._bar is not None:
            self._done += 1
            self._bar.advance()
        elif isinstance(event, SuiteFinished) and self._bar is not None:
            self._ended.set()
            self._bar.close()

    def _lines(self, total: int, first: int, start: float) -> None:
        while not self._ended.wait(UNPACED_S):
            before, paced_s = self._done, LINE_S - UNPACED_S
            if self._ended.wait(paced_s):
                return
            pace = (self._done - before) / paced_s
            sys.stderr.write(said(self._label, self._done, total, first, time.monotonic() - start, pace) + "\n")
            sys.stderr.flush()


def said(label: str, done: int, total: int, first: int, elapsed_s: float, pace: float) -> str:
    """How far a suite is, ``pace`` in runs a second. What is left is estimated only where the total is known (not 0);
    beyond it are the runs in which smaller programs of failures are looked for. Else ``first`` come, then random ones
    until a budget ends.
    """
    if not total and first:
        shown = (
            f"{done} of {first}, then random ones,"
            if done < first
            else f"all {first} of the corpus, {done - first} random ones"
        )
        return f"{label}: {shown} after {elapsed_s:.0f} s"
    if total and done >= total:
        return f"{label}: all {total} after {elapsed_s:.0f} s, and {done - total} to make what failed smaller"
    line = f"{label}: {done} of {total or 'an unknown number'} after {elapsed_s:.0f} s"
    if not pace or not total:
        return line
    return f"{line}, about {(total - done) / pace:.0f} s left at this pace"


class FirstVerdict(Writer):
    """A quick run's sign of life: the first verdict, as soon as there is one."""

    def __init__(self) -> None:
        self._start: float | None = time.monotonic()

    def handle(self, event: SuiteEvent) -> None:
        """Say once what was probed, and once the first verdict."""
        if isinstance(event, SuiteStarted):
            for name in ("offers", "lacks", "programs"):
                if name in event.about:
                    sys.stdout.write(f"{name:<8}  {event.about[name]}\n")
            sys.stdout.flush()
        if self._start is None or not isinstance(event, RunFinished):
            return
        for verdict in event.result.verdicts:
            if verdict.verdict in {VerdictKind.SATISFIED, VerdictKind.VIOLATED}:
                text = (
                    f"{verdict.verdict.value}: {verdict.requirement} on {event.result.broker}, by {event.result.name}"
                )
                sys.stdout.write(f"first verdict after {time.monotonic() - self._start:.1f} s: {text}\n")
                sys.stdout.flush()
                self._start = None
                return
