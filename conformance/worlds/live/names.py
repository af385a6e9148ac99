"""Names of one live run: everything physical is fresh per run, so that brokers may be shared and need no restart."""

from __future__ import annotations

import secrets

from brokerproof.conformance.brokers.translation import logical, physical
from brokerproof.conformance.experiment.destinations import DEAD_LETTERS, is_composite, parts_of


class Names:
    """``run`` is part of all of them."""

    def __init__(self) -> None:
        self.run = f"bp{secrets.token_hex(4)}"

    def physical(self, dest: str) -> str:
        """``q0`` -> ``queue://q0.RUN``; the dead-letter queue is everybody's."""
        if is_composite(dest):
            return ",".join(self.physical(part) for part in parts_of(dest))
        return physical(dest) if dest == DEAD_LETTERS else f"{physical(dest)}.{self.run}"

    def logical(self, name: str) -> str:
        """``queue://q0.RUN`` -> ``q0``."""
        return ",".join(part.removesuffix(f".{self.run}") for part in parts_of(logical(name)))

    def on_wire(self, message: str) -> str:
        """How a message of this run is called on the wire."""
        return f"{self.run}:{message}"

    def ours(self, token: str) -> str | None:
        """The suite's id of a message, None if it is not of this run."""
        run, _, message = token.partition(":")
        return message if run == self.run and message else None
