"""Programs and histories of version 1, read as version 2. Here alone a name says what a destination is.

In version 1 a name that begins with ``t`` is a topic's (``tv…`` a virtual one's, ``A.tv0`` a queue's that consumes from
``tv0``), names joined by commas are several, ``~c0`` is the temporary queue of host ``c0``. A policy entry is one of
the broker's ``destinations``, a ``probe`` is a ``visit``, and a ``connect`` tells no traits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from brokerproof.conformance.experiment.destinations import Destination, is_aside, is_pattern
from brokerproof.conformance.experiment.traits import traits_of

PROGRAM_1: Final = "brokerproof/program/1"
PROGRAM_2: Final = "brokerproof/program/2"
HISTORY_1: Final = "brokerproof/history/1"
HISTORY_2: Final = "brokerproof/history/2"
#: Fields of events that hold a destination's name.
_NAMED: Final = ("dest", "to", "original_dest")


def destinations_named(names: Iterable[str]) -> list[Destination]:
    """What the names of a version 1 program or history mean, each once."""
    distinct = dict.fromkeys(names)
    single = dict.fromkeys(part for name in distinct for part in name.split(","))
    return [_named(name, list(single)) for name in distinct]


def _named(name: str, names: list[str]) -> Destination:
    if "," in name:
        return Destination(name, "composite", of=[_named(part, names) for part in name.split(",")])
    if name.startswith("~"):
        return Destination(name, "temporary", host=name[1:])
    if name.startswith("tv"):
        fed = [other for other in names if other.rpartition(".")[2] == name != other and not is_aside(other)]
        return Destination(name, "virtual", of=[Destination(other, "queue") for other in fed])
    return Destination(name, "topic" if name.startswith(("t", "ActiveMQ.Advisory.")) else "queue")


def program_2(fields: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a program of version 1 as one of version 2. Raises ``TypeError`` or ``AttributeError`` for what is no
    program at all.
    """
    converted = {**fields, "format": PROGRAM_2}
    converted["broker"] = _with_policies(fields.get("broker", {}))
    dests = converted.pop("dests", ["q0"])
    converted["destinations"] = msgspec.to_builtins(destinations_named(dests))
    converted["steps"] = [_step_2(step) for step in fields.get("steps", [])]
    return converted


def _step_2(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "do": "probe"} if step.get("do") == "visit" else step


def _with_policies(broker: dict[str, Any]) -> dict[str, Any]:
    converted = {name: value for name, value in broker.items() if name not in {"copies", "temporaries"}}
    if "destinations" in converted:
        converted["policies"] = converted.pop("destinations")
    return converted


def header_2(fields: dict[str, Any]) -> dict[str, Any]:
    """The JSON of the header of a history of version 1 as one of version 2, but for its destinations."""
    return {**fields, "format": HISTORY_2, "declared": _with_policies(fields.get("declared", {}))}


def event_2(fields: dict[str, Any]) -> dict[str, Any]:
    """The JSON of an event likewise."""
    if fields.get("kind") == "visit":
        return {**fields, "kind": "probe"}
    if fields.get("kind") == "skipped":
        return {**fields, "step": _step_2(fields.get("step", {}))}
    if fields.get("kind") == "connect":
        checks = bool(fields.get("expiry_check", False))
        told = {name: value for name, value in fields.items() if name != "expiry_check"}
        return told | {"traits": msgspec.to_builtins(traits_of(fields.get("via", "stomp"), checks_expiry=checks))}
    return fields


def names_in(events: Iterable[object]) -> Iterable[str]:
    """The names of destinations in events, patterns left out, in order."""
    for event in events:
        for field in _NAMED:
            name = getattr(event, field, None)
            if name and not is_pattern(name):
                yield name
