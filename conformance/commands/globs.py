"""``--requirement`` of several commands: given twice, both count, as ``GLOB,GLOB`` does."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


class Globs(argparse.Action):
    """Joins what is given by commas."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,  # noqa: ARG002 - argparse's
    ) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is None else f"{before},{values}")
