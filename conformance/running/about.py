"""What a suite says of itself beside its verdicts: the machine, the tools, the seeds. Nothing that names a machine."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec

from brokerproof.chaos.preload import library_path
from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.chaos.toxiproxy import VERSION, find_toxiproxy
from brokerproof.conformance.running.options import SuiteOptions


def about(options: SuiteOptions) -> dict[str, str]:
    """Name -> words, in the order in which a report shows them."""
    python = f"Python {platform.python_version()}"
    found = {"environment": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, {python}"}
    if options.tier != "simulated":
        found["tools"] = ", ".join(_tools())
        found["client"] = options.client
    if options.programs or options.live_programs:
        drawn = max(options.programs, options.live_programs)
        budget = "" if options.budget_s is None else f", until {options.budget_s:g} s have passed"
        found["seeds"] = f"{options.seed} to {options.seed + drawn - 1}{', guided' if options.guided else ''}{budget}"
    return found


def _tools() -> list[str]:
    tools = {"libfaketime": library_path, f"Toxiproxy {VERSION}": find_toxiproxy}
    words = []
    for name, find in tools.items():
        try:
            find()
            words.append(name)
        except (ToolMissing, ToolFailed):
            words.append(f"no {name}")
    return [*words, "JPype" if find_spec("jpype") else "no JPype"]
