"""Names of one live run: everything physical is fresh per run, so that brokers may be shared and need no restart."""

from __future__ import annotations

import secrets

from brokerproof.conformance.brokers.translation import Names
from brokerproof.conformance.experiment.destinations import Destinations


class RunNames(Names):
    """``run`` is part of all of them."""

    def __init__(self, destinations: Destinations) -> None:
        self.run = f"bp{secrets.token_hex(4)}"
        super().__init__(destinations, f".{self.run}")

    def on_wire(self, message: str) -> str:
        """How a message of this run is called on the wire."""
        return f"{self.run}:{message}"

    def ours(self, token: str) -> str | None:
        """The suite's id of a message, None if it is not of this run."""
        run, _, message = token.partition(":")
        return message if run == self.run and message else None
