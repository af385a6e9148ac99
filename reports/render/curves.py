"""Curves of a run: how much memory each destination holds, what is in flight, every host's clock, every link.

Rules
* A value holds until the next one, so a curve is a staircase; nothing is drawn before the first reading.
* Several runs are drawn on one axis: the same time and the same scale.
"""

from __future__ import annotations

from typing import Final

import msgspec

from brokerproof.conformance.experiment.history import (
    ClockSample,
    Closed,
    Connect,
    Counters,
    Event,
    Fault,
    History,
    Phase,
    Probe,
)

Points = list[tuple[int, float]]
BARS: Final = "▁▂▃▄▅▆▇█"
COLUMNS: Final = 48
WIDTH, HEIGHT, PAD_LEFT, PAD = 520, 170, 44, 14
NS_PER_MS: Final = 1_000_000
UNITS: Final = {
    "memory": "percent of the memory limit",
    "in-flight": "messages in flight",
    "clocks": "wall clock minus true time, seconds",
    "links": "1: the link works, 0.5: nothing gets through, 0: closed; of raw peers the share that is connected",
}


def curves(history: History, curve: str) -> dict[str, Points]:
    """Name -> points (true nanoseconds, value) of what the program did, without the drain."""
    found: dict[str, Points] = {}
    origin: int | None = None
    for event in history.events:
        if isinstance(event, Phase) and event.name == "drain":
            break
        if curve in {"memory", "in-flight"} and isinstance(event, Counters):
            value = event.memory_percent if curve == "memory" else event.in_flight if event.dest else None
            if value is not None:
                found.setdefault(event.dest or "broker", []).append((event.t1, value))
        elif curve == "clocks" and isinstance(event, ClockSample):
            middle = (event.t0 + event.t1) // 2
            offset = event.wall_ms * NS_PER_MS + event.beyond_ns - middle
            origin = offset if origin is None else origin
            found.setdefault(event.host, []).append((middle, offset / 1e9))
        elif curve == "links":
            _link(event, found)
    if curve == "clocks" and found:
        _from_the_median(found)
    return found


def _from_the_median(found: dict[str, Points]) -> None:
    """Nobody's clock is right by itself: the median of all counts as such."""
    firsts = sorted(points[0][1] for points in found.values())
    right = firsts[(len(firsts) - 1) // 2]
    for points in found.values():
        points[:] = [(at, round(value - right, 3)) for at, value in points]


def _link(event: Event, found: dict[str, Points]) -> None:
    if isinstance(event, Connect):
        found.setdefault(event.host, []).append((event.t1, 1.0))
    elif isinstance(event, Probe):
        ended_ns = event.heard.ended_ns if event.said.times == 1 and event.heard.ended_ns else event.t1
        left = 1 - event.heard.closed / event.said.times
        found.setdefault(event.host, []).extend([(event.t0, 1.0), (min(ended_ns, event.t1), left)])
    elif isinstance(event, Closed):
        name = event.link or event.host
        if name in found and found[name][-1][1] != 0:
            found[name].append((event.t1, 0.0))
    elif (
        isinstance(event, Fault)
        and event.link in found
        and event.fault in {"stall", "resume"}
        and found[event.link][-1][1]
    ):
        found[event.link].append((event.t1, 0.5 if event.fault == "stall" else 1.0))


class Axis(msgspec.Struct, frozen=True):
    """What several runs are drawn on."""

    end_ns: int
    low: float
    high: float

    def share(self, value: float) -> float:
        """Where a value is between the lowest and the highest, 0 to 1."""
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0


def axis(runs: list[dict[str, Points]], histories: list[History | None]) -> Axis:
    """One axis for all runs: it ends when the last of the programs did, and includes 0."""
    values = [value for run in runs for line in run.values() for _, value in line] or [0.0]
    events = (event for history in histories if history is not None for event in history.events)
    ends = [event.t1 for event in events if isinstance(event, Phase) and event.name == "drain"]
    return Axis(max(ends, default=1) or 1, min(0.0, *values), max(0.0, *values))


def spark(points: Points, on: Axis, columns: int = COLUMNS) -> str:
    """A line of bars, one for each stretch of time: the value that is furthest from 0 in it."""
    text = []
    value: float | None = None
    rest = list(points)
    for column in range(columns):
        until = on.end_ns * (column + 1) // columns
        here = [] if value is None else [value]
        while rest and rest[0][0] <= until:
            value = rest.pop(0)[1]
            here.append(value)
        furthest = max(here, key=abs) if here else None
        text.append(" " if furthest is None else BARS[round(on.share(furthest) * (len(BARS) - 1))])
    return "".join(text)


class Line(msgspec.Struct, frozen=True):
    """One staircase, as an SVG's points; ``place`` numbers its style; the last point is where its name goes."""

    name: str
    points: str
    place: int
    x: float
    y: float


class Plot(msgspec.Struct, frozen=True):
    """One run's drawing."""

    lines: list[Line]
    ticks: list[tuple[float, str]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = PAD_LEFT
    end: str = ""
    zero: float = 0.0


def plot(run: dict[str, Points], on: Axis) -> Plot:
    """The drawing of a run's curves."""
    inner = WIDTH - PAD_LEFT - 70

    def x(at: int) -> float:
        return round(PAD_LEFT + inner * at / on.end_ns, 1)

    def y(value: float) -> float:
        return round(HEIGHT - PAD - (HEIGHT - 2 * PAD) * on.share(value), 1)

    lines: list[Line] = []
    for place, (name, points) in enumerate(run.items()):
        corners: list[tuple[float, float]] = []
        for at, value in points:
            if corners:
                corners.append((x(at), corners[-1][1]))
            corners.append((x(at), y(value)))
        corners.append((x(on.end_ns), corners[-1][1]))
        text = " ".join(f"{left},{top}" for left, top in corners)
        lines.append(Line(name, text, place % 6, corners[-1][0], corners[-1][1] + _apart(lines, corners[-1][1])))
    ticks = [(y(value), f"{value:,.6g}") for value in dict.fromkeys((on.low, 0.0, on.high))]
    return Plot(lines, ticks, end=f"{on.end_ns / 1e9:,.3g} s", zero=y(0.0))


def _apart(lines: list[Line], top: float) -> float:
    """How far below its line a name stands, so that names of equal curves can be read."""
    return 12.0 * sum(abs(line.points.rpartition(",")[2] == str(top)) for line in lines)
