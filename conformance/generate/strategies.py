"""The registry of steps as Hypothesis strategies: the same generators, choosing from Hypothesis instead of a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from brokerproof.conformance.experiment.chooser import Chooser
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.steps import AnyStep, Shape
from brokerproof.conformance.generate.frame import PERIODS_MS, SKEWS_MS, TTLS_MS, draw_frame

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMES_MS = list(dict.fromkeys([0, *TTLS_MS, *PERIODS_MS, *(abs(skew) for skew in SKEWS_MS)]))
#: What a frame for state machines may have: their rules are drawn for any of them.
_SETTINGS = (
    "several-clients",
    "jms",
    "unchecked",
    "skews",
    "several-queues",
    "topics",
    "stamping",
    "monitors",
    "limits",
)
_STEPS = ("ttls", "delays", "volatile", "stamps")


def shape() -> Shape:
    """The shape that rules are drawn for. Steps are total, so ordinals beyond what a program has are reduced, not
    wasted.
    """
    return Shape(3, 3, 3, _TIMES_MS, _STEPS)


class DrawingChooser(Chooser):
    """Choices drawn from Hypothesis, one integer each; shrinking moves them towards 0."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def below(self, bound: int) -> int:
        return self._draw(st.integers(0, bound - 1))


@st.composite
def steps(draw: st.DrawFn, kind: type[AnyStep]) -> AnyStep:
    """Steps of one kind."""
    return kind.draw(DrawingChooser(draw), shape())


@st.composite
def frames(draw: st.DrawFn) -> Program:
    """Programs without steps: broker settings, hosts, clocks and links."""
    chooser = DrawingChooser(draw)
    return draw_frame(chooser, tuple(setting for setting in _SETTINGS if chooser.flag(50)))
