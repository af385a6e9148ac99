"""The corpus: named programs, each told by a story or left behind by a defect.

Rules: a name is never used again; a program that once failed stays here for good. Files are ``<name>.json`` beside this
module; stories that come in families are
tables in ``stories.py``.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from brokerproof.conformance.experiment.program import Program, read_program


@cache
def programs() -> dict[str, Program]:
    """All named programs, sorted by name."""
    folder = Path(str(resources.files(__package__)))
    return {path.stem: read_program(path) for path in sorted(folder.glob("*.json"))}
