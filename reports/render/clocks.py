"""The drawing of all clocks side by side: from a ``Timeline`` to coordinates.

``templates/clocks.svg`` only places what is computed here.

Reading it: time runs to the right and is the observer's true time. Each host has a lane; in it, the upper part shows
how far its wall clock is off (the dashed line is right), the lower rail carries what happened there. Thin lines join
the sending of a message with its arrivals; a thick line before an event is the span in which it happened. Witness
events are ringed, numbered and crossed by a line through all lanes. ``templates/timeline.js`` steps through them.

Rules:

* Distances along time are compressed: a gap grows with its logarithm, or a run with a delay of an hour and steps of a
  millisecond would be two blots. Every vertical line therefore carries its time.
* Offsets are drawn on a scale that is linear within a millisecond and logarithmic beyond, the same in all lanes; the
  value is written beside every bend.
"""

from __future__ import annotations

from bisect import bisect_right
from math import asinh, log10

import msgspec

from brokerproof.reports.render.timeline import ClockPoint, Lane, Mark, Timeline
from brokerproof.reports.render.units import offset_text, true_text

NS_PER_MS = 1_000_000
WIDTH = 1120
LEFT = 132
RIGHT = 24
TOP = 44
LANE = 100
#: Height of the curve, and where a clock that is right is drawn; above and below there is room for labels.
CURVE = 34
ZERO = 35
RAIL = 80
#: Room that a label of an offset or a time needs, in drawing units.
LABEL_OFFSET = 74
LABEL_TIME = 84

#: Event kind -> glyph on the rail. Letters would need a legend; these are explained below the drawing.
GLYPHS = {
    "send": "▲",
    "arrive": "▼",
    "consume": "●",
    "discard": "✕",
    "ack": "✓",
    "nack": "✗",
    "subscribe": "+",
    "leave": "⊣",
    "connect": "⊢",
    "closed": "⊗",
    "counters": "Σ",
    "clock": "⟳",
    "stall": "‖",
    "resume": "▷",
    "browse": "◎",
    "begin": "(",
    "commit": ")",
    "abort": "↶",
    "unsubscribe": "⊖",
    "operate": "⚙",
    "restart": "⏻",
    "probe": "☉",
    "pause": "⏸",
    "phase": "¶",
    "skipped": "·",
}
OTHER = "■"


class Glyph(msgspec.Struct, frozen=True):
    """One event on a rail; ``title`` is its tooltip, ``span`` how far before it began (its t0)."""

    x: float
    span: float
    y: float
    sign: str
    title: str
    seq: int
    witness: bool
    good: bool


class Text(msgspec.Struct, frozen=True):
    """A label."""

    x: float
    y: float
    text: str


class Path(msgspec.Struct, frozen=True):
    """A straight line, what it says when pointed at, and the events at its ends."""

    x1: float
    y1: float
    x2: float
    y2: float
    title: str = ""
    start: int = 0
    end: int = 0


class LaneDrawing(msgspec.Struct, frozen=True):
    """One lane.

    ``curve`` are the points of the clock's line, ``stalls`` are (x, width) of the hatched stretches of the rail.
    """

    host: str
    role: str
    top: float
    zero: float
    rail: float
    curve: str
    jumps: list[Path]
    offsets: list[Text]
    stalls: list[tuple[float, float]]


class Drawing(msgspec.Struct, frozen=True):
    """The whole picture, in drawing units."""

    width: int
    height: float
    left: int
    right: float
    bottom: float
    lane: int
    lanes: list[LaneDrawing]
    guides: list[Path]
    times: list[Text]
    paths: list[Path]
    glyphs: list[Glyph]
    legend: list[tuple[str, str]]


class Axis:
    """True time -> x, with compressed gaps."""

    def __init__(self, times_ns: list[int], left: float, right: float) -> None:
        self._times = sorted(set(times_ns)) or [0]
        weights = [0.35 + log10(1 + (b - a) / 10_000) for a, b in zip(self._times, self._times[1:], strict=False)]
        total = sum(weights) or 1.0
        self._places = [left]
        for weight in weights:
            self._places.append(self._places[-1] + weight * (right - left) / total)
        self.right = right

    def x(self, time_ns: int) -> float:
        """Where a moment is drawn; moments outside are clamped."""
        after = bisect_right(self._times, time_ns)
        if after == 0:
            return self._places[0]
        if after == len(self._times):
            return self._places[-1]
        start, end = self._times[after - 1], self._times[after]
        part = (time_ns - start) / (end - start)
        return self._places[after - 1] + part * (self._places[after] - self._places[after - 1])


def draw(timeline: Timeline) -> Drawing | None:
    """The picture, or None when there is nothing to draw."""
    if not timeline.lanes or not timeline.marks:
        return None
    jumps = [point.true_ns for lane in timeline.lanes for point in lane.points if point.jump]
    times = [0, timeline.end_ns, *(time for time in jumps if time <= timeline.end_ns)]
    times += [time for mark in timeline.marks for time in (mark.t0_ns, mark.t1_ns)]
    axis = Axis(times, LEFT + 26, WIDTH - RIGHT - 30)
    scale = max((abs(point.offset_ns) for lane in timeline.lanes for point in lane.points), default=0)
    lanes = [_lane(lane, number, axis, scale, timeline.end_ns) for number, lane in enumerate(timeline.lanes)]
    rails = {lane.host: lane.rail for lane in lanes}
    height = TOP + LANE * len(lanes) + 34
    bottom = TOP + LANE * len(lanes)
    witnesses = [mark for mark in timeline.marks if mark.witness]
    return Drawing(
        width=WIDTH,
        height=height,
        left=LEFT,
        right=WIDTH - RIGHT,
        bottom=bottom,
        lane=LANE,
        lanes=lanes,
        guides=[
            Path(axis.x(mark.t1_ns), TOP - 8, axis.x(mark.t1_ns), bottom, f"event {mark.seq}", mark.seq, mark.seq)
            for mark in witnesses
        ],
        times=_times(timeline, axis, bottom + 20),
        paths=_paths(timeline.marks, axis, rails),
        glyphs=_glyphs(timeline.marks, axis, rails),
        legend=_legend(timeline.marks),
    )


def _lane(lane: Lane, number: int, axis: Axis, scale: int, end_ns: int) -> LaneDrawing:
    top = TOP + LANE * number
    zero = top + ZERO
    points: list[tuple[float, float]] = []
    jumps: list[Path] = []
    shown = [point for point in lane.points if point.true_ns <= end_ns] or lane.points[:1]
    for point in shown:
        x, y = axis.x(point.true_ns), zero - _height(point.offset_ns, scale)
        if points and point.jump:
            before = points[-1][1]
            points.append((x, before))
            jumps.append(Path(x, before, x, y, f"{lane.host}: the clock jumps"))
        points.append((x, y))
    if points:
        points.append((axis.x(end_ns) + 26, points[-1][1]))
    stalls = []
    for start, end in lane.stalls:
        if start <= end_ns:
            x = axis.x(start)
            stalls.append((x, max(2.0, axis.x(end if end is not None else end_ns) - x)))
    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return LaneDrawing(
        lane.host, lane.role, top, zero, top + RAIL, curve, jumps, _offsets(shown, axis, zero, scale), stalls
    )


def _height(offset_ns: int, scale_ns: int) -> float:
    if not scale_ns:
        return 0.0
    return (CURVE / 2) * asinh(offset_ns / NS_PER_MS) / asinh(max(scale_ns, NS_PER_MS) / NS_PER_MS)


def _offsets(points: list[ClockPoint], axis: Axis, zero: float, scale: int) -> list[Text]:
    """A label per bend, dropped where the one before still stands in its way and says the same or nearly so."""
    labels: list[Text] = []
    for point in points:
        x, y = axis.x(point.true_ns), zero - _height(point.offset_ns, scale)
        text = offset_text(point.offset_ns, point.error_ns)
        if labels and labels[-1].text == text:
            continue
        if labels and x - labels[-1].x < LABEL_OFFSET:
            if not point.jump:
                continue
            labels.pop()
        labels.append(Text(x + 4, y - 5 if point.offset_ns >= 0 else y + 13, text))
    return labels


def _times(timeline: Timeline, axis: Axis, y: float) -> list[Text]:
    """Time labels along the bottom: witnesses first, then jumps, then whatever has room."""
    jumps = [point.true_ns for lane in timeline.lanes for point in lane.points if point.jump]
    wanted = [mark.t1_ns for mark in timeline.marks if mark.witness]
    wanted += [time for time in jumps if time <= timeline.end_ns]
    wanted += [0, timeline.end_ns, *(mark.t1_ns for mark in timeline.marks)]
    labels: list[Text] = []
    for time in wanted:
        x = axis.x(time)
        if all(abs(x - label.x) >= LABEL_TIME for label in labels):
            labels.append(Text(x, y, true_text(time)))
    return labels


def _paths(marks: list[Mark], axis: Axis, rails: dict[str, float]) -> list[Path]:
    sent = {message: mark for mark in marks if mark.kind == "send" for message in mark.messages}
    paths = []
    for mark in marks:
        if mark.kind != "arrive" or mark.host not in rails:
            continue
        for message in mark.messages:
            source = sent.get(message)
            if source is not None and source.host in rails:
                start, end = axis.x(source.t1_ns), axis.x(mark.t1_ns)
                title = f"{message}: sent to arrived"
                paths.append(Path(start, rails[source.host], end, rails[mark.host], title, source.seq, mark.seq))
    return paths


def _glyphs(marks: list[Mark], axis: Axis, rails: dict[str, float]) -> list[Glyph]:
    """Glyphs that would lie on each other are stacked upwards, at most three high."""
    glyphs: list[Glyph] = []
    last: dict[str, tuple[float, int]] = {}
    for mark in marks:
        if mark.host not in rails:
            continue
        x = axis.x(mark.t1_ns)
        before, level = last.get(mark.host, (-99.0, 0))
        level = (level + 1) % 3 if x - before < 11 else 0
        last[mark.host] = (x, level)
        title = f"event {mark.seq}, {true_text(mark.t1_ns)} ms: {mark.kind} {mark.summary}"
        y = rails[mark.host] - 11 * level
        span = x - axis.x(mark.t0_ns)
        glyphs.append(Glyph(x, span, y, GLYPHS.get(mark.kind, OTHER), title, mark.seq, mark.witness, mark.good))
    return glyphs


def _legend(marks: list[Mark]) -> list[tuple[str, str]]:
    kinds = dict.fromkeys(mark.kind for mark in marks if mark.host)
    return [(GLYPHS.get(kind, OTHER), kind) for kind in kinds]
