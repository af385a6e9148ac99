"""Model: expiry is monotonic under ``futureOnly`` (seed 000, TSP-003).

What arrives carries the expiration that its producer stamped, or a later one. An absent expiration (0 or less) is not
comparable, and a ceiling may lower one (DESIGN section 5).
"""

from __future__ import annotations

import msgspec

from brokerproof.conformance.experiment.configuration import TimeStampingSpec
from brokerproof.conformance.experiment.history import Arrive
from brokerproof.conformance.experiment.history import Send as Sent
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import Ack, Advance, Clock, Send, Settle, Subscribe, Take
from brokerproof.conformance.experiment.verdict import Verdict
from brokerproof.conformance.machines.model import MessageModel


class ExpiryModel(MessageModel):
    """See the module's header."""

    name = "expiry"
    promises = ("TSP-003",)
    kinds = (Send, Subscribe, Take, Ack, Clock, Advance, Settle)
    mutants = (
        "dead-letter-1ms-restamped",
        "expiration-in-seconds",
        "stamp-1ms-back",
        "stamp-1ms-behind",
        "stamp-acts-on-equal",
        "stamp-future-only-ignored",
    )

    @staticmethod
    def fit(frame: Program) -> Program:
        """Whatever the frame says of the plug-in, ``futureOnly`` is on."""
        present = frame.broker.timestamping or TimeStampingSpec()
        stamping = msgspec.structs.replace(present, future_only=True)
        return msgspec.structs.replace(frame, broker=msgspec.structs.replace(frame.broker, timestamping=stamping))

    def compare(self, sent: Sent, arrive: Arrive) -> Verdict | None:
        stamping = self.program.broker.timestamping
        applies = stamping is not None and stamping.future_only and not stamping.ttl_ceiling_ms
        if not applies or sent.expiration_ms <= 0 or arrive.expiration_ms >= sent.expiration_ms:
            return None
        text = f"{sent.message} was sent with expiration {sent.expiration_ms} and arrived with {arrive.expiration_ms}"
        return self.broken("TSP-003", arrive, text)
