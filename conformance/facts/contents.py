"""Contents: what of a message is not as its producer sent it, as far as its consumer told."""

from __future__ import annotations

from collections.abc import Collection

from brokerproof.conformance.experiment.history import Arrive, HeaderValue, Send
from brokerproof.conformance.facts.managed import REASON, TARGET
from brokerproof.conformance.facts.tables import Tables


def differences(tables: Tables, sent: Send, arrived: Arrive) -> list[str]:
    """What differs, in words. Outside of the simulation an agent need not look at properties."""
    looked = tables.simulated or arrived.headers is not None
    as_sent = sent.body == arrived.body and sent.priority == arrived.priority
    if as_sent and sent.message_kind == arrived.message_kind and sent.group == arrived.group:
        return []
    pairs: tuple[tuple[str, object, object], ...] = (
        ("body", sent.body, arrived.body),
        ("kind", sent.message_kind, arrived.message_kind or ("" if looked else sent.message_kind)),
        ("group", sent.group, arrived.group or ("" if looked else sent.group)),
        ("priority", sent.priority, sent.priority if arrived.priority is None else arrived.priority),
    )
    return [f"{name} {got!r} instead of {was!r}" for name, was, got in pairs if was != got]


def header_differences(sent: Send, arrived: Arrive, known: Collection[str] | None = None) -> list[str]:
    """The same of what applications alone read, where somebody looked. ``known``: names that may not be new; None: no
    name may.
    """
    was, got = sent.headers, arrived.headers
    if got is None or not (was or got):
        return []
    lost = [f"no {name}, and {value!r} was sent" for name, value in was.items() if name not in got]
    new = [
        f"{name} {value!r}, which nobody sent"
        for name, value in got.items()
        if name not in was and name not in {REASON, TARGET} and (known is None or name in known)
    ]
    both = [(name, was[name], got[name]) for name in was if name in got]
    return (
        lost + new + [f"{name} {seen!r} instead of {said!r}" for name, said, seen in both if not _is_same(said, seen)]
    )


def _is_same(said: HeaderValue, seen: HeaderValue) -> bool:
    """Whether a value is the one that was sent, perhaps as its text: where a protocol knows no types."""
    if isinstance(said, str) or not isinstance(seen, str):
        return said == seen and isinstance(said, bool) is isinstance(seen, bool)
    if isinstance(said, bool):
        return seen == ("true" if said else "false")
    try:
        return type(said)(seen) == said
    except ValueError:
        return False
