"""A story: one incident of the founding documents as two programs, sick and cured, and what each must show.

Rules
* ``expects`` names what the judge and the facts say: a requirement's id -> its verdict, a measure of
  ``running/measures.py`` -> a number or (least, most). Where generations differ it is a table, generation -> value,
  with "" for all others (a verdict "" may be any); a generation that is no key of a table without "" expects nothing.
* A half that violates any other MUST than ``expects`` says is not as documented.
* ``breaks`` is the mutant (its id) or the generation (``area=name``) under which the story must fail.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, HostSpec, LinkSpec, MonitorSpec
from brokerproof.conformance.experiment.destinations import Destination, queues
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.conformance.experiment.steps import AnyStep, Operate, Send

Curve = Literal["clocks", "links", "memory", "in-flight"]
Expects = dict[str, Any]

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
#: How long a consumer waits for a message that comes, and for one that does not.
SURE = 10 * SECOND
VAIN = 3 * SECOND


@dataclass(frozen=True)
class Half:
    """A program, and what it must show."""

    program: Program
    expects: Expects


@dataclass(frozen=True)
class Story:
    """``remedy`` and what it costs (``price``), in a sentence each. ``beyond``: it goes beyond what the text says."""

    name: str
    title: str
    curve: Curve
    sick: Half
    cured: Half
    remedy: str
    price: str
    breaks: str
    beyond: bool = False

    @property
    def document(self) -> str:
        """The founding document's number."""
        return self.name[:3]

    def halves(self) -> dict[str, Half]:
        """Both, by name."""
        return {"sick": self.sick, "cured": self.cured}


def client(
    name: str, ahead: int = 0, via: Literal["stomp", "jms"] = "stomp", *, check: bool = True, drift_ppm: int = 0
) -> HostSpec:
    """A client's host whose clock is so many milliseconds ahead."""
    return HostSpec(name, "client", via, ClockSpec(ahead, drift_ppm), check)


def plot(
    *steps: AnyStep | list[AnyStep],
    hosts: tuple[HostSpec, ...] = (client("p0"), client("c0")),
    ahead: int = 0,
    broker: BrokerSpec | None = None,
    links: dict[str, LinkSpec | MonitorSpec] | None = None,
    dests: list[Destination] | None = None,
) -> Program:
    """The program of a half: the broker's clock is ``ahead`` by so many milliseconds. Steps may be grouped in lists."""
    flat = [step for entry in steps for step in (entry if isinstance(entry, list) else [entry])]
    found = [
        link if isinstance(link, LinkSpec) else LinkSpec(name, monitor=link) for name, link in (links or {}).items()
    ]
    machines = [HostSpec("b", "broker", clock=ClockSpec(ahead)), *hosts]
    return Program(FORMAT, broker or BrokerSpec(), machines, found, dests or queues("q0"), flat)


def by_generation(expects: Expects, generation: dict[str, str]) -> Expects:
    """What is expected of a broker of this generation (area -> name)."""
    names = {f"{area}={name}" for area, name in generation.items()} | set(generation.values())
    found: Expects = {}
    for what, value in expects.items():
        if isinstance(value, dict):
            keys = [key for key in value if key in names] or [key for key in value if key == ""]
            if keys:
                found[what] = value[keys[0]]
        else:
            found[what] = value
    return found


def lacking(half: Half, given: BrokerSpec, offers: Collection[str]) -> str:
    """Why a broker that is ``given`` when a half asks for its own, and ``offers`` these capabilities and operations of
    its operator, cannot show it; "" if it can.
    """
    asked, steps = half.program.broker, half.program.steps
    if "broker-ttl" not in offers and any(isinstance(step, Send) and step.life_ms for step in steps):
        return "it counts no time to live by its own clock (broker-ttl)"
    undone = [step.op for step in steps if isinstance(step, Operate) and step.op not in offers]
    if undone and "mqsc" not in undone:
        return f"its operator cannot do what the story does to it while it runs ({undone[0]})"
    for name in ("connector", "monitor_offer"):
        if getattr(asked, name) is not None and getattr(given, name) is None:
            return f"what it asks for of the broker's links cannot be chosen ({name})"
    other = {area: name for area, name in asked.generation.items() if given.generation.get(area) != name}
    if "ibm-mq" in other.values() or (other and not by_generation(half.expects, given.generation)):
        return "it is about " + ", ".join(
            f"{area}={name}, and this broker is {given.generation.get(area, 'neither')}" for area, name in other.items()
        )
    return ""
