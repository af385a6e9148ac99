"""Names of one live run: where brokers outlive runs everything physical is fresh, so that they need no restart."""

from __future__ import annotations

import secrets

from brokerproof.conformance.brokers.translation import Names
from brokerproof.conformance.experiment.destinations import Destinations


class RunNames(Names):
    """``run`` is part of all of them, or ``alone``, where commands may name destinations, only of messages' ids.
    ``separator``: as in ``Names``.
    """

    def __init__(self, destinations: Destinations, *, alone: bool = False, separator: str = ".") -> None:
        self.run = f"bp{secrets.token_hex(4)}"
        super().__init__(destinations, "" if alone else f".{self.run}", separator)

    def on_wire(self, message: str) -> str:
        """How a message of this run is called on the wire."""
        return f"{self.run}:{message}"

    def ours(self, token: str) -> str | None:
        """The suite's id of a message, None if it is not of this run."""
        run, _, message = token.partition(":")
        return message if run == self.run and message else None
