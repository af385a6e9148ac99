"""What somebody may have meant by a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """``did you mean 'x'? `` or nothing, to stand within an error."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]!r}? " if near else ""
