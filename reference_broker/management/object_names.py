"""ObjectNames: how the beans of a broker are called, and what a pattern matches (JMX, in ActiveMQ's spelling).

* ``domain:key=value,…``. A bean keeps the order in which its name was built (answers show that one); two names are
  equal if they have the same properties. A reference from one bean to another is written in canonical order, by key.
* In a value ``: , ' "`` become ``_``, ``?`` becomes ``&qe;``, ``=`` becomes ``&amp;``, ``*`` becomes ``&ast;``.
* A pattern is a name with ``*`` or ``?`` in the domain or in a value, or with a last ``*`` for further properties.

Known exception: quoted values (``"…"``) are taken as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

DOMAIN: Final = "org.apache.activemq"
_ENCODED: Final = str.maketrans({":": "_", ",": "_", "'": "_", '"': "_", "?": "&qe;", "=": "&amp;", "*": "&ast;"})


class BadNameError(Exception):
    """The *prober* wrote a name that is none. The text shows it and the remedy."""


def encoded(part: str) -> str:
    """A text as it may stand in a name."""
    return part if part.isalnum() else part.translate(_ENCODED)


class ObjectName:
    """The name of one bean."""

    __slots__ = ("domain", "properties")

    def __init__(self, properties: Mapping[str, str], domain: str = DOMAIN) -> None:
        self.domain = domain
        self.properties = dict(properties)

    def __str__(self) -> str:
        return f"{self.domain}:{self.key_list()}"

    def key_list(self) -> str:
        """The properties, in the order in which the name was built."""
        return ",".join(f"{key}={value}" for key, value in self.properties.items())

    def canonical(self) -> str:
        """The properties by key."""
        return f"{self.domain}:" + ",".join(f"{key}={value}" for key, value in sorted(self.properties.items()))

    def reference(self) -> dict[str, str]:
        """How another bean refers to it."""
        return {"objectName": self.canonical()}


class ObjectNamePattern:
    """A name as a prober wrote it: of one bean, or a pattern."""

    __slots__ = ("_matchers", "domain", "is_pattern", "open", "properties", "text")

    def __init__(self, text: str) -> None:
        """Raises ``BadNameError``."""
        domain, colon, rest = text.partition(":")
        if not colon or not rest:
            raise BadNameError(f"{text!r} is not an ObjectName; write it as in {DOMAIN}:type=Broker,brokerName=b")
        self.domain = domain
        self.properties: dict[str, str] = {}
        #: Whether further properties may follow.
        self.open = False
        for part in _parts(rest):
            if part == "*":
                self.open = True
                continue
            key, equals, value = part.partition("=")
            if not equals or not key or not value or key in self.properties:
                raise BadNameError(f"{text!r} is not an ObjectName: {part!r} must be one key=value, each key once")
            self.properties[key] = value
        self.is_pattern = self.open or any(_is_wild(value) for value in (domain, *self.properties.values()))
        self._matchers = {key: _matcher(value) for key, value in self.properties.items() if _is_wild(value)}
        self.text = self.canonical() if self.is_pattern else text

    def canonical(self) -> str:
        """The name as Jolokia repeats a pattern."""
        parts = [f"{key}={value}" for key, value in sorted(self.properties.items())]
        return f"{self.domain}:" + ",".join([*parts, "*"] if self.open else parts)

    def matches(self, name: ObjectName) -> bool:
        """Whether it means that bean."""
        if not self.open and len(name.properties) != len(self.properties):
            return False
        if name.domain != self.domain and not (_is_wild(self.domain) and _matcher(self.domain).fullmatch(name.domain)):
            return False
        for key, wanted in self.properties.items():
            found = name.properties.get(key)
            if found is None:
                return False
            if found != wanted and not (key in self._matchers and self._matchers[key].fullmatch(found)):
                return False
        return True


def _is_wild(text: str) -> bool:
    return "*" in text or "?" in text


def _matcher(pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in pattern), re.DOTALL)


def _parts(text: str) -> list[str]:
    """Split at commas that stand in no quotes."""
    return re.findall(r'(?:[^,"]|"[^"]*")+', text)
