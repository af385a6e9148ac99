"""All rules: importing this imports each file of this room, and so fills the registry."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from brokerproof.conformance.rules import rule as registry
from brokerproof.conformance.rules.rule import RULES

_ROOM, _, _ = registry.__name__.rpartition(".")
for _file in iter_modules([str(Path(registry.__file__).parent)]):
    import_module(f"{_ROOM}.{_file.name}")

__all__ = ["RULES"]
