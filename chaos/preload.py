"""The library that skews clocks: libfaketime's multi-thread build, made once from the source in its wheel.

Decides: which file goes into `LD_PRELOAD`, how it is built and where it is kept.
Rules: never the library that the wheel ships. It re-reads the clock file into buffers that all threads share without a
lock, so that in a process with several threads a reading is now and then the *unskewed* time, and now and then the
process ends with exit code 1 and "failed to parse FAKETIME timestamp"; four threads that read the clock flat out end it
within a million readings, and a broker in a JVM within some hours. The upstream switch for a lock costs about 0.3 us a
reading. The wrappers that the wheel leaves out (sleep, stat, utime) are left out here too: with them `time.sleep` of
CPython 3.11 fails. What was built is believed only after a process has shown the time that it was told.
Known exceptions: without a C compiler clocks cannot be skewed at all, because clocks that may lie are worse than none.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
from pathlib import Path

from brokerproof.chaos.tools import ToolFailed, ToolMissing, cache_folder, find_cc, one_at_a_time, run_tool

REMEDY = "pip install libfaketime"
NAME = "libfaketimeMT.so.1"
_SOURCE = "vendor/libfaketime/src"
_PARTS = ("libfaketime.c", "libfaketime.map", "faketime_common.h", "time_ops.h", "uthash.h", "sunos_endian.h")
_FLAGS = (
    "-std=gnu99",
    "-O2",
    "-fPIC",
    "-shared",
    "-DPTHREAD_SINGLETHREADED_TIME",
    "-DFAKE_PTHREAD",
    "-DFAKE_TIMERS",
    "-DFAKE_INTERNAL_CALLS",
    '-DPREFIX=""',
    '-DLIBDIRNAME=""',
    "-w",
)
_LIBRARIES = ("-lpthread", "-ldl", "-lm", "-lrt")
_BUILD_TIMEOUT_S = 120
_TOLD_S = 100_000_000


def library_path(cache_dir: Path | None = None) -> Path:
    """The library, built at the first call on a machine (about 1 s); raises `ToolMissing` or `ToolFailed`."""
    source = source_folder()
    digest = hashlib.sha256(" ".join(_FLAGS).encode())
    for part in _PARTS:
        digest.update((source / part).read_bytes())
    folder = (cache_dir or cache_folder()) / "libfaketime" / digest.hexdigest()[:16]
    library = folder / NAME
    if not library.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(folder):
            if not library.is_file():
                _build(source, library)
    return library.resolve()


def source_folder() -> Path:
    """Where the wheel has its C source, found without importing it; raises `ToolMissing`."""
    spec = importlib.util.find_spec("libfaketime")
    if spec is None or spec.origin is None:
        raise ToolMissing("libfaketime", REMEDY)
    source = Path(spec.origin).parent / _SOURCE
    for part in _PARTS:
        if not (source / part).is_file():
            raise ToolMissing("libfaketime", f"{source / part} is not there; {REMEDY}")
    return source


def _build(source: Path, library: Path) -> None:
    staging = library.with_name(f".{library.name}.{os.getpid()}")
    symbols = f"-Wl,-soname,{NAME},--version-script={source / 'libfaketime.map'}"
    argv: list[str | Path] = [*find_cc(), *_FLAGS, "-o", staging, source / "libfaketime.c", symbols, *_LIBRARIES]
    try:
        run_tool("C compiler", argv, _BUILD_TIMEOUT_S)
        _believe(staging)
        staging.replace(library)
    finally:
        staging.unlink(missing_ok=True)


def _believe(library: Path) -> None:
    """The loader passes silently over what it cannot load; so a process must show a skewed time."""
    env = {"LD_PRELOAD": str(library), "FAKETIME": f"+{_TOLD_S}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    argv = [sys.executable, "-I", "-c", "import time; print(time.time_ns())"]
    shown = run_tool("libfaketime", argv, 30, env=env).strip()
    if not shown.isdigit() or int(shown) - time.time_ns() < _TOLD_S * 1_000_000_000 // 2:
        raise ToolFailed("libfaketime", argv, "what was built does not skew the clock", shown)
