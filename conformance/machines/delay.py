"""Model: delayed messages are never early, across skews and jumps (seed 004, DLY-001).

The broker cannot have accepted a message before its producer began to send it, so an arrival earlier than that plus
the delay is early for certain, whatever any clock showed.
"""

from __future__ import annotations

from brokerproof.conformance.experiment.history import Arrive
from brokerproof.conformance.experiment.history import Send as Sent
from brokerproof.conformance.experiment.steps import Ack, Advance, Clock, Leave, Send, Settle, Subscribe, Take
from brokerproof.conformance.experiment.verdict import Verdict
from brokerproof.conformance.machines.model import NS_PER_MS, MessageModel


class DelayModel(MessageModel):
    """See the module's header."""

    name = "delay"
    promises = ("DLY-001",)
    kinds = (Send, Subscribe, Take, Ack, Leave, Clock, Advance, Settle)
    mutants = (
        "delay-1ms-early",
        "delay-by-wall-clock",
        "delay-from-producer-clock",
        "delay-ignored",
        "delay-lost",
        "delay-restarts-life",
    )

    def compare(self, sent: Sent, arrive: Arrive) -> Verdict | None:
        early_ns = sent.t0 + sent.delay_ms * NS_PER_MS - arrive.t1
        if early_ns <= 0:
            return None
        text = f"{arrive.message} arrived {early_ns / NS_PER_MS:.3f} ms before its delivery time"
        return self.broken("DLY-001", arrive, text)
