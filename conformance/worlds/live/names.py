"""Names of one live run: where brokers outlive runs everything physical is fresh, so that they need no restart."""

from __future__ import annotations

import secrets

from brokerproof.conformance.brokers.translation import Names
from brokerproof.conformance.experiment.destinations import Destinations


class RunNames(Names):
    """``run`` is part of all of them, or ``alone``, where commands may name destinations, only of messages' ids.
    ``separator``: as in ``Names``; names that are paths (of MQTT) begin with it, for there patterns end a name.
    """

    def __init__(self, destinations: Destinations, *, alone: bool = False, separator: str = ".") -> None:
        self.run = f"bp{secrets.token_hex(4)}"
        paths = separator == "/"
        suffix, prefix = ("", f"{self.run}.") if paths else (f".{self.run}", "")
        super().__init__(destinations, "" if alone else suffix, separator, prefix="" if alone else prefix)

    def on_wire(self, message: str) -> str:
        """How a message of this run is called on the wire."""
        return f"{self.run}:{message}"

    def ours(self, token: str) -> str | None:
        """The suite's id of a message, None if it is not of this run."""
        run, _, message = token.partition(":")
        return message if run == self.run and message else None
