"""What ``brokerproof run`` can be asked for."""

from __future__ import annotations

import re

from msgspec import Struct

from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.results import REFERENCE

#: Programs of the main job: what two cores do in well under a minute.
PROGRAMS = 1500
UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600}


def seconds_of(text: str) -> float:
    """``2h``, ``90m``, ``1h30m``, ``120s`` in seconds. Raises ``UsageError``."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(h|min|m|s)", text)
    total = sum(float(number) * UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not total:
        raise UsageError(f"--budget {text!r} is no time; give hours, minutes or seconds, for example 2h, 90m or 1h30m")
    return total


def budget_s(text: str) -> float:
    """The same, and seconds without a unit."""
    return float(text) if text.replace(".", "", 1).isdecimal() else seconds_of(text)


class SuiteOptions(Struct, eq=False, kw_only=True):
    """What ``brokerproof run`` was asked for."""

    broker: str = REFERENCE
    tier: str = "both"
    seed: int = 0
    programs: int = PROGRAMS
    #: Random programs of the live tier.
    live_programs: int = 0
    budget_s: float | None = None
    requirement: str | None = None
    jobs: int = 2
    mutant: str | None = None
    home: str | None = None
    client: str = "as-written"
    #: How many times as fast as the machine live programs are played that bear it; None: the profile's.
    speed: int | None = None
    #: Of the live corpus only what shows most, until so many seconds have passed; None: all of it.
    quick_s: float | None = None
    #: Of the live corpus only so many that each requirement is shown ``TIMES`` times (``quick.py``); both tiers only.
    covering: bool = False
    #: The broker's column, "": as it calls itself.
    name: str = ""
    #: Whether what earlier programs of the simulated tier met decides what is drawn next.
    guided: bool = False
    #: Profile of faults that are drawn into random programs; then nothing else is run.
    chaos: str | None = None
