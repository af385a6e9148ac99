"""Shape: what a step's generator knows of the program that it is drawing for.

Decides which values are interesting there: amounts near the program's own constants, and near what its earlier steps
have used, as often as amounts from a range; the defects live at the borders. A field that belongs to a feature is drawn
only if the program has it (``FEATURES``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.conformance.experiment.chooser import Chooser

#: What steps may ask for. Settings of the frame have features of their own (``generate/frame.py``).
FEATURES: Final = (
    "priorities",
    "selectors",
    "groups",
    "exclusive",
    "browsers",
    "wildcards",
    "pull",
    "durables",
    "transactions",
    "operator",
    "restarts",
    "lifetimes",
    "raw-peers",
    "ttls",
    "delays",
    "stamps",
    "volatile",
    "sizes",
    "windows",
    "no-local",
    "nacks",
    "clocks",
    "stalls",
    "pauses",
    "acknowledgements",
    "forgeries",
    "headers",
    "bridges",
    "endless",
    "presets",
    "repeats",
    "temporaries",
    "limits",
    "nonsense",
    "parallel",
)
#: Durations that mean something in most programs, simplest first.
TIMES_MS: Final = (0, 1000, 2000, 120_000, 100, 1, 20_000)
#: Earlier amounts that are remembered.
_REMEMBERED: Final = 6


class Shape(Struct, eq=False):
    """How much there is of everything, what clients speak, and which amounts matter. One serves one program."""

    clients: int
    dests: int
    links: int
    #: Durations in milliseconds, sizes in bytes and numbers of messages that the program is built around.
    times_ms: Sequence[int] = TIMES_MS
    features: tuple[str, ...] = ()
    #: The library of each client; ordinals of topics, of all that somebody can consume from, of all that clients send
    #: to. Nothing: STOMP's; none; everything.
    vias: Sequence[str] = ()
    topics: Sequence[int] = ()
    consumable: Sequence[int] = ()
    open_to: Sequence[int] = ()
    sizes: Sequence[int] = ()
    counts: Sequence[int] = ()
    #: Durations that steps have used.
    used_ms: list[int] = []

    def __post_init__(self) -> None:
        self.vias = self.vias or ["stomp"] * self.clients
        self.consumable = self.consumable or range(self.dests)
        self.open_to = self.open_to or range(self.dests)

    def draw_ms(self, chooser: Chooser) -> int:
        """A duration: from a range, or one of the program's, or one of an earlier step, or a neighbour of these."""
        how = chooser.below(10)
        if how >= 7:
            value = chooser.below(4000)
        else:
            known = self.used_ms if self.used_ms and how >= 4 else self.times_ms
            value = max(0, known[chooser.below(len(known))] + (0, 1, -1)[chooser.below(3)])
        if value:
            self.used_ms = [*self.used_ms[1 - _REMEMBERED :], value]
        return value

    def draw_some_ms(self, chooser: Chooser) -> int:
        """The same, but never no time at all."""
        return max(1, self.draw_ms(chooser))

    def draw_size(self, chooser: Chooser) -> int:
        """The size of a body: a usual one, or one at a border of the program's limits."""
        if "sizes" in self.features and self.sizes and chooser.flag(50):
            return max(0, self.sizes[chooser.below(len(self.sizes))] + (0, 1, -1)[chooser.below(3)])
        return (64, 0, 1024, 4096)[chooser.below(4)]

    def draw_count(self, chooser: Chooser) -> int:
        """A number of messages, at least 1: few, or as many as something in the program, one more or one less."""
        if self.counts and chooser.flag(30):
            return max(1, self.counts[chooser.below(len(self.counts))] + (0, 1, -1)[chooser.below(3)])
        return 1 + chooser.below(12)
