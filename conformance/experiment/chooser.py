"""The one interface through which everything random is chosen: ``below(n)``, ``flag``, ``step``.

Rules:

* Generators see nothing but a ``Chooser``: no ``random.Random``, no clock, no Hypothesis. So one generator serves the
  seeded driver, replay and shrinking.
* 0 is always the simplest choice: shrinking moves every number towards it.
* ``step()`` marks the border of a step and says whether to go on; a chooser that shrinks can delete what lies between
  two borders.

This module is the only one in the deterministic rooms that may import ``random`` (a guard checks it).
"""

from __future__ import annotations

import random


class Chooser:
    """A source of choices. Subclasses override ``below`` and, if they stop early, ``step``."""

    def below(self, bound: int) -> int:
        """A number in ``[0, bound)``; 0 is the simplest. ``bound`` must be at least 1."""
        raise NotImplementedError

    def flag(self, percent: int) -> bool:
        """True in about ``percent`` of 100 cases; False is the simplest."""
        return self.below(100) >= 100 - percent

    def step(self) -> bool:
        """Begin a step; False ends the program."""
        return True


class SeededChooser(Chooser):
    """Choices from a seed: the same seed gives the same choices on every platform and Python version.

    ``random.Random(seed).random()`` is documented to be reproducible across versions; ``randrange`` is not, so it is
    not used.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random  # noqa: S311 - a simulation needs reproducible, not secret, numbers

    def below(self, bound: int) -> int:
        return int(self._random() * bound)


class RecordingChooser(Chooser):
    """Passes another chooser's choices on and remembers them as ``(bound, value)``."""

    def __init__(self, inner: Chooser) -> None:
        self.inner = inner
        self.choices: list[tuple[int, int]] = []

    def below(self, bound: int) -> int:
        value = self.inner.below(bound)
        self.choices.append((bound, value))
        return value

    def step(self) -> bool:
        return self.inner.step()


class ReplayChooser(Chooser):
    """Gives recorded choices again; a choice that no longer fits is reduced modulo its bound, and after the last one
    everything is 0.
    """

    def __init__(self, choices: list[tuple[int, int]]) -> None:
        self._choices = choices
        self._next = 0

    def below(self, bound: int) -> int:
        if self._next >= len(self._choices):
            return 0
        value = self._choices[self._next][1]
        self._next += 1
        return value % bound
