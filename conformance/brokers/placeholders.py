"""``{here}``, ``{port.stomp}`` and the like in the words of a profile.

Rules: a name in braces that has no value is refused with the nearest that has; braces around anything else stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.nearest import suggestion

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.profile import Located

_NAME = re.compile(r"\{([a-z][\w.]*)\}")
_PORT = re.compile(r"\{port\.(\w+)\}")


def filled(text: str, values: Mapping[str, str], located: Located, line: str) -> str:
    """The text with its placeholders replaced. Raises ``UsageError``, naming the line of the profile."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in values:
            known = ", ".join(f"{{{one}}}" for one in values) or "none"
            raise located.wrong(line, f"{{{name}}} has no value in {text!r}; {suggestion(name, values)}known: {known}")
        return values[name]

    return _NAME.sub(value, text)


def ports_in(*texts: str) -> list[str]:
    """The names of all ports that are asked for, each once."""
    return list(dict.fromkeys(name for text in texts for name in _PORT.findall(text)))
