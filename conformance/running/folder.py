"""Where a command writes, checked before the work, not after it; and how it writes a program.

Rules: the folder is made if it is not there; one that cannot be made or written is bad usage.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.program import Program


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make a folder to write into, which an option names. Raises ``UsageError``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror}); give a folder that can be made and written ({option})"
        ) from None


def write_program(program: Program, path: Path) -> None:
    """Write a program as a file that ``replay`` takes and a person can read."""
    path.write_bytes(msgspec.json.format(program.encode(), indent=1) + b"\n")
