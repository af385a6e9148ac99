"""An operator's question and its answer, in one shape for all commands: values first, then what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

YES: Final = "yes"
NO: Final = "no"
UNKNOWN: Final = "unknown"
#: For what is no question of yes or no.
NOTE: Final = "note"


@dataclass(frozen=True)
class Answer:
    """``problem``: a yes needs somebody to act. ``remedy`` may hold several sentences."""

    id: str
    question: str
    answer: str
    values: list[str] = field(default_factory=list)
    remedy: str = ""
    problem: bool = False

    @property
    def is_trouble(self) -> bool:
        """Whether it is a problem that is there."""
        return self.problem and self.answer == YES

    def row(self) -> dict[str, Any]:
        """For machines."""
        return {
            "id": self.id,
            "question": self.question,
            "answer": self.answer,
            "problem": self.problem,
            "values": self.values,
            "remedy": self.remedy,
        }

    def text(self) -> str:
        """For people."""
        lines = [f"{self.answer:<8}{self.question}"]
        lines += [f"        {value}" for value in self.values]
        if self.remedy:
            lines.append(f"        remedy: {self.remedy}")
        return "\n".join(lines) + "\n"


def said(condition: bool | None) -> str:
    """A truth value, or that nobody knows."""
    if condition is None:
        return UNKNOWN
    return YES if condition else NO
