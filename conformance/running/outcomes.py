"""What became of every message of a run, in a few words; what stories assert and parity compares.

Words, joined by ``+`` in this order: ``consumed`` (an application of the program got it), ``drained`` (it was still on
its queue at the end), ``dead-letter`` (it was on the dead-letter queue at the end). ``refused``: the send failed.
``gone``: none of these. What a durable subscription is still owed when the run drains counts as ``consumed``: its own
host takes it. What a bridge takes it only sends on.

This is a summary for people and for comparing worlds; verdicts are the judge's business.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import is_drain
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_aside
from brokerproof.conformance.experiment.history import Arrive, Consume, History, Send
from brokerproof.conformance.facts.network import FAR

CONSUMED = "consumed"
DRAINED = "drained"
DEAD_LETTER = "dead-letter"
REFUSED = "refused"
GONE = "gone"
_ORDER = (CONSUMED, DRAINED, DEAD_LETTER)


def outcomes(history: History) -> dict[str, str]:
    """Message -> outcome, in the order of the sends."""
    seen: dict[str, set[str]] = {}
    refused: set[str] = set()
    bridges = _bridges(history)
    for event in history.events:
        if isinstance(event, Send):
            seen.setdefault(event.message, set())
            if event.result == "fail":
                refused.add(event.message)
        elif isinstance(event, Consume) and not is_drain(event.host) and event.host not in bridges:
            seen.setdefault(event.message, set()).add(CONSUMED)
        elif isinstance(event, Arrive) and is_drain(event.host):
            word = DEAD_LETTER if event.dest == DEAD_LETTERS or is_aside(event.dest) else DRAINED
            seen.setdefault(event.message, set()).add(word)
    return {
        message: "+".join(word for word in _ORDER if word in words) or (REFUSED if message in refused else GONE)
        for message, words in seen.items()
    }


def _bridges(history: History) -> set[str]:
    """Hosts that consume only to send on."""
    hosts = history.header.at or {}
    return {name.removesuffix(FAR) for name in hosts if name.endswith(FAR)}
