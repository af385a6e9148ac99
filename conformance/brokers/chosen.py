"""How a broker was chosen: what stands behind ``--broker`` and the options beside it."""

from __future__ import annotations

import re
from pathlib import Path

from brokerproof.conformance.experiment.results import REFERENCE


class Chosen:
    """How a broker was chosen; what a class that does all of a profile is made from. ``release``, ``home``
    and ``speed`` None: its own.
    """

    def __init__(
        self,
        text: str,
        *,
        home: str | None = None,
        mutant: str | None = None,
        client: str = "as-written",
        speed: int | None = None,
    ):
        self.text = text
        self.release = None if is_place(text) else text.partition("@")[2] or None
        self.home = None if home is None else Path(home)
        self.mutant = mutant
        self.client = client
        self.speed = speed

    def words(self) -> tuple[str, ...]:
        """The same as options of a command, without a passcode."""
        words: tuple[str, ...] = () if self.text == REFERENCE else ("--broker", hidden(self.text))
        words += () if self.home is None else ("--home", str(self.home))
        words += () if self.speed is None else ("--speed", str(self.speed))
        return words if self.client == "as-written" else (*words, "--client", self.client)


def is_place(text: str) -> bool:
    """Whether it is a file or a URL, and no name."""
    return "://" in text or text.endswith(".toml") or "/" in text


def hidden(url: str) -> str:
    """A URL without its passcode."""
    return re.sub(r"//[^@/]*@", "//…@", url)
