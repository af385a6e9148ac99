"""The plots of a campaign, each with the sentence that it stands for, as one page without a network.

Rules
* A plot shows what the store holds and no more: what lacks data is named with what would bring it.
* Curves of planted defects are Kaplan and Meier's: one that survived its campaign counts until there, and no longer.
* Nothing is told by colour alone; axes carry units. Of points there are 3,000 at most, by a digest.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from brokerproof.reports.render.html import page_environment
from brokerproof.reports.store.duck import asked, connect, figures
from brokerproof.reports.store.estimates import survival
from brokerproof.reports.store.files import StoreMissing
from brokerproof.reports.store.manifests import Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Sequence[dict[str, Any]]
WIDTH_IN, HEIGHT_IN, ROW_IN = 7.2, 3.4, 0.17
BLUE, ORANGE, GREY = "#0a5ba8", "#c2570c", "#777777"
#: Milliseconds around 0 that are drawn to scale; beyond them scales are logarithmic.
LINEAR_MS: Final = 1.0


class Plot(msgspec.Struct, frozen=True):
    """``svg`` "": there are no data, and ``says`` tells what would bring some."""

    name: str
    title: str
    says: str
    svg: str = ""


def coverage(axes: Axes, rows: Rows) -> str:
    """Requirements and situations that were met, over the runs."""
    said = []
    for (what, points), style in zip(groupby(rows, itemgetter("what")), ("-", "--"), strict=False):
        found = list(points)
        places, counts = [row["place"] for row in found], [int(row["met"]) for row in found]
        axes.step(places, counts, where="post", label=what, linestyle=style, color=BLUE)
        said.append(f"{counts[-1]} {what}, the last new one in run {places[-1]:,}")
    axes.set_xscale("log")
    axes.set_xlabel("runs")
    axes.set_ylabel("met so far")
    axes.legend()
    return f"Met: {'; '.join(said)}."


def surviving(axes: Axes, rows: Rows) -> str:
    """Kaplan and Meier's curve of planted defects with its 95 % band."""
    curve = survival([(int(row["programs"]), bool(row["killed"])) for row in rows])
    places = [0, *(step.after for step in curve)]
    for values, style in (("share", "-"), ("low", ":"), ("high", ":")):
        axes.step(places, [1.0, *(getattr(step, values) for step in curve)], where="post", color=BLUE, linestyle=style)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("programs")
    axes.set_ylabel("share of defects still alive")
    killed = sum(bool(row["killed"]) for row in rows)
    return f"{killed} of {len(rows)} planted defects violated something; dotted: 95 % confidence."


def slack(axes: Axes, rows: Rows) -> str:
    """How close runs come to the limit of each timed requirement."""
    for place, row in enumerate(rows):
        axes.plot([row["low"], row["high"]], [place, place], color=BLUE, linewidth=4, solid_capstyle="butt", alpha=0.4)
        axes.plot(row["median"], place, marker="|", color=BLUE, markersize=9)
        axes.plot(row["least"], place, marker="x", color=ORANGE if row["least"] < 0 else GREY, markersize=5)
    axes.axvline(0, color=ORANGE, linewidth=0.8)
    axes.set_xscale("symlog", linthresh=LINEAR_MS)
    axes.set_yticks(range(len(rows)), [row["requirement"] for row in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlabel("ms to the limit; left of 0 it is broken")
    near = min(rows, key=itemgetter("least"))
    return (
        "Each run's least distance: bars hold 80 % of the runs, a stroke is the middle one, a cross the least. "
        f"Nearest: {near['requirement']} with {near['least']:,.3f} ms."
    )


def links(axes: Axes, rows: Rows) -> str:
    """Silence after which ends closed links, against the period that they had agreed to."""
    longest = max(row["period"] for row in rows)
    for who, marker, color in (("broker", "o", BLUE), ("client", "^", ORANGE)):
        found = [row for row in rows if row["who"] == who]
        axes.plot([row["period"] for row in found], [row["idle"] for row in found], marker, color=color, alpha=0.5,
                  label=f"closed by the {who}")  # fmt: skip
    axes.plot([0, longest], [0, longest], color=GREY, linestyle="-", label="the period")
    axes.plot([0, longest], [0, 2 * longest], color=GREY, linestyle="--", label="twice the period")
    axes.set_xlabel("agreed period of the monitor, ms")
    axes.set_ylabel("silence before the close, ms")
    axes.legend()
    ratios = [row["idle"] / row["period"] for row in rows]
    return (
        f"{len(rows):,} drawn closes for inactivity, after {min(ratios):.2f} to {max(ratios):.2f} periods of silence."
    )


def lives(axes: Axes, rows: Rows) -> str:
    """What became of messages by the life that they had left when the broker accepted them."""
    for delivered, place, marker, color in ((True, 1, "|", BLUE), (False, 0, "x", ORANGE)):
        points = [row["life"] for row in rows if row["delivered"] is delivered]
        axes.plot(points, [place] * len(points), marker, color=color, markersize=9, alpha=0.4)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xscale("symlog", linthresh=LINEAR_MS)
    axes.set_yticks([0, 1], ["never delivered", "delivered"])
    axes.set_ylim(-0.6, 1.6)
    axes.set_xlabel("life left by the broker's clock at acceptance, ms")
    dead = [row for row in rows if row["life"] < 0]
    through = sum(row["delivered"] for row in dead)
    return (
        f"Skew eats lives on the way: of {len(rows):,} drawn {len(dead):,} were dead at their acceptance; "
        f"{through:,} of these were delivered (a broker that stamps may revive them)."
    )


def in_flight(axes: Axes, rows: Rows) -> str:
    """Distribution of the in-flight counts that were read."""
    for at_rest, color, word, shift in ((False, ORANGE, "while things moved", -0.2), (True, BLUE, "at rest", 0.2)):
        found = [row for row in rows if row["at_rest"] is at_rest]
        axes.bar(
            [row["count"] + shift for row in found], [row["readings"] for row in found], 0.4, color=color, label=word
        )
    axes.set_yscale("log")
    axes.set_xscale("symlog", linthresh=10)
    axes.set_xlabel("messages in flight, as the broker counts them")
    axes.set_ylabel("readings")
    axes.legend()
    negative = {
        rest: sum(row["readings"] for row in rows if row["at_rest"] is rest and row["count"] < 0)
        for rest in (False, True)
    }
    return f"Negative in {negative[False]:,} readings while things moved, and in {negative[True]:,} at rest."


Draw = Callable[["Axes", Rows], str]
#: Name of the query -> title, what draws it, what brings data.
PLOTS: Final[dict[str, tuple[str, Draw, str]]] = {
    "coverage": ("What was met", coverage, "no run of this campaign met anything"),
    "survival": (
        "Survival of planted defects",
        surviving,
        "no campaign of this store has a defect (`campaign --mutant ID`)",
    ),
    "slack": ("Distance to the limits", slack, "no timed requirement was exercised"),
    "links": (
        "Silence before a close",
        links,
        "no kept history has a link that was closed for inactivity (`campaign --facts all`)",
    ),
    "lives": ("Lives and skew", lives, "no kept history has a message with an expiration (`campaign --facts all`)"),
    "in_flight": ("In-flight counts", in_flight, "no kept history has counters (`campaign --facts all`)"),
}


def draw(name: str, rows: Rows) -> Plot:
    """One plot. Raises ``ImportError`` without matplotlib."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    title, drawing, missing = PLOTS[name]
    if not rows:
        return Plot(name, title, f"Nothing to draw: {missing}.")
    # Text stays text, so that it can be read aloud and found; ids depend on nothing but the drawing.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif", "font.size": 9}):
        height = max(HEIGHT_IN, ROW_IN * len(rows) + 0.8) if drawing is slack else HEIGHT_IN
        figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        says = drawing(axes, rows)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = text.getvalue()
    return Plot(name, title, says, svg[svg.index("<svg") :])


def write_plots(store: Store, campaign: str, path: Path) -> None:
    """Write the page of one campaign. Raises ``StoreMissing`` without DuckDB or matplotlib."""
    queries = figures()
    with contextlib.closing(connect(store)) as connection:
        (told,) = asked(connection, "SELECT * FROM campaigns WHERE campaign = $campaign", campaign)
        try:
            plots = [draw(name, asked(connection, queries[name], campaign)) for name in PLOTS]
        except ImportError:
            raise StoreMissing("this needs the package 'matplotlib'; pip install 'brokerproof[plots]'") from None
    sentence = f"{told['runs'] or 0:,} runs from seed {told['seed']}, {told['state']}: {told['command']}"
    template = page_environment().get_template("plots.html")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(template.render(campaign=campaign, told=sentence, plots=plots), encoding="utf-8")
