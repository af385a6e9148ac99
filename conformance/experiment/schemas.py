"""JSON Schemas of our formats, the same from every Python and every msgspec."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec


def schema_of(kind: Any) -> dict[str, Any]:
    """JSON Schema of a type. Descriptions are docstrings, which Python strips of their indentation from 3.13 on; that
    a table's keys are those of an enumeration only msgspec from 0.23 on says.
    """
    found: dict[str, Any] = _cleaned(msgspec.json.schema(kind))
    return found


def _cleaned(part: Any) -> Any:
    if isinstance(part, list):
        return [_cleaned(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        name: inspect.cleandoc(one) if name == "description" and isinstance(one, str) else _cleaned(one)
        for name, one in part.items()
        if name != "propertyNames" or "$ref" not in one
    }
