"""Where a command writes: checked before the work, not after it.

Rules: the folder is made if it is not there; one that cannot be made or written is bad usage.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from brokerproof.conformance.experiment.exits import UsageError


def make_folder(folder: Path) -> None:
    """Make a folder to write into. Raises ``UsageError``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror}); give a folder that can be made and written (--out)"
        ) from None
