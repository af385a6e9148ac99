"""Classes that a profile names."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from brokerproof.conformance.brokers.profile import PYTHON
from brokerproof.conformance.brokers.settings import Settings
from brokerproof.conformance.experiment.nearest import suggestion

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.profile import Located


def settings_of(located: Located) -> Settings:
    """Who turns ``[settings]`` into a configuration. Raises ``UsageError``."""
    table = located.profile.settings
    if isinstance(table, str):
        kind = class_of(located, "settings", table, {})
        return cast("Settings", kind(located))
    return Settings(located)


def class_of(located: Located, line: str, name: str, known: Any) -> Any:
    """What a word of a profile means: one of ours, or ``python:module:Class``. Raises ``UsageError``."""
    if name in known:
        return known[name]
    if not name.startswith(PYTHON):
        shown = f"known: {', '.join(known)}, or {PYTHON}module:Class" if known else f"give {PYTHON}module:Class"
        raise located.wrong(line, f"{name!r} is not known; {suggestion(name, known)}{shown}")
    module, _, attribute = name.removeprefix(PYTHON).partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise located.wrong(line, f"{name!r} cannot be loaded: {error}") from None
