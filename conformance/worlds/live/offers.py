"""What a request needs of its host's agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.destinations import Destinations, is_pattern
from brokerproof.conformance.worlds.port import NotOfferedError

if TYPE_CHECKING:
    from brokerproof.conformance.worlds.port import Outcome


def check_asked(outcome: Outcome) -> None:
    """Raises ``NotOfferedError`` for what the agent's library cannot do: the broker was not even asked."""
    if ops.is_unasked(outcome.refusal):
        raise NotOfferedError(outcome.refusal)


def needs(operation: ops.ClientOperation, known: Destinations) -> dict[str, bool]:
    """Capability of an agent -> whether it is needed."""
    match operation:
        case ops.Send():
            return {
                "absolute-delay": operation.deliver_in_ms != 0 or operation.preset_in_ms != 0,
                "bridges": operation.network,
                "endless": operation.endless,
                "forgeries": operation.forged != 0,
                "groups": bool(operation.group),
                "headers": bool(operation.headers),
                "lifetimes": operation.life_ms != 0,
                "producers": bool(operation.calls),
                "repeats": operation.again,
                "temporaries": operation.reply or known.kind(operation.dest) == "temporary",
            }
        case ops.Subscribe():
            return {
                "selectors": bool(operation.selector),
                "durables": bool(operation.durable),
                "browsers": operation.browser,
                # The cursor of a JMS browser is read to its end at once, whatever its library fetches.
                "default-prefetch": operation.prefetch is None and not operation.browser,
                "exclusive": operation.exclusive or operation.priority != 0,
                "wildcards": is_pattern(operation.dest),
                "temporaries": known.kind(operation.dest) == "temporary",
            }
        case ops.Begin():
            return {"transactions": True}
        case ops.Unsubscribe():
            return {"durables": True}
        case ops.Acknowledge():
            return {"acknowledgements": True}
        case ops.Nack():  # asked in vain, it would count as rejected, and not be listed with what is acknowledged later
            return {"nack": True}
    return {}
