"""The look of a verdict, the same in every format: a symbol, a word and a short name.

Rule: a verdict is never told by colour alone. The symbol and the word stand wherever the colour does, so that print, a
screen reader and every kind of colour vision get the same report. Colours themselves live in ``templates/style.css``.
"""

from __future__ import annotations

import msgspec

from brokerproof.conformance.experiment.verdict import VerdictKind


class Look(msgspec.Struct, frozen=True):
    """How a verdict appears.

    ``name`` is used in class names and anchors, ``style`` on the terminal; ``meaning`` explains it in a legend.
    """

    symbol: str
    name: str
    style: str
    meaning: str


LOOKS: dict[VerdictKind, Look] = {
    VerdictKind.VIOLATED: Look(
        "✘", "violated", "bold red", "certainly broken, for every choice of instants the observations allow"
    ),
    VerdictKind.KNOWN_FAILURE: Look(
        "⚑", "known", "magenta", "broken, known and documented for this broker; it must still fail"
    ),
    VerdictKind.NOT_MET: Look("✗", "notmet", "yellow", "a SHOULD or MAY that was broken; it decides no exit code"),
    VerdictKind.INCONCLUSIVE: Look(
        "≈", "unsure", "yellow", "observed, but the clocks or intervals were too wide to decide"
    ),
    VerdictKind.SATISFIED: Look("✔", "satisfied", "green", "kept in every run that put it to the test"),
    VerdictKind.NOT_RUN: Look(
        "○", "notrun", "cyan", "a tool or fault was missing or left no evidence; nothing is claimed"
    ),
    VerdictKind.NOT_EXERCISED: Look("\u2013", "idle", "dim", "judged, but no run created the situation"),
    VerdictKind.NOT_APPLICABLE: Look("∅", "na", "dim", "the broker, or the way we reach it, does not offer this"),
    VerdictKind.PLANNED: Look("…", "planned", "dim", "in the catalogue, not judged by this release"),
}

GRADES = {"ok": "as promised", "acceptable": "acceptable", "violated": "violation"}
