"""Contents: what of a message is not as its producer sent it, as far as its consumer told."""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Arrive, Send
from brokerproof.conformance.facts.tables import Tables


def differences(tables: Tables, sent: Send, arrived: Arrive) -> list[str]:
    """What differs, in words. Outside of the simulation an agent need not look at properties."""
    looked = tables.simulated
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
