"""What a trial is asked for, and what it tells: the JSON between it and who starts it."""

from __future__ import annotations

from typing import TypedDict


class Task(TypedDict):
    """One mutant: its module, that module's text, and the programs that reach it, each with the digest of the history
    on the sound broker and the requirements that it violates there.
    """

    module: str
    source: str
    programs: list[tuple[str, str, list[str]]]


class Outcome(TypedDict):
    """``kind``: ``killed``, ``crashed``, ``hung`` or ``survived``. ``by``: the violated requirements. ``program``: the
    one that decided, or, of a survivor, the one with the shortest history that differs ("": none does); ``history``:
    that history. ``programs``: how many were run.
    """

    kind: str
    by: list[str]
    program: str
    history: str
    programs: int
