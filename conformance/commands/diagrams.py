"""Writes the pictures of ARCHITECTURE.md from the tables that the core runs by:
``python -m brokerproof.conformance.commands.diagrams ARCHITECTURE.md``.

What stands between two markers is written, never edited; a test compares. So a picture cannot tell another story than
the code.
"""

from __future__ import annotations

import sys
from pathlib import Path

from brokerproof.reference_broker.core import acknowledgement, destination
from brokerproof.reference_broker.core.acknowledgement import RULES
from brokerproof.reference_broker.core.config import GENERATIONS
from brokerproof.reference_broker.core.policies import BASES
from brokerproof.reference_broker.core.reference import MOVES, WAITING


def message_states() -> str:
    """``MOVES`` as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {WAITING}"]
    for state, following in MOVES.items():
        lines += [f"    {state} --> {other}" for other in MOVES if other in following]
        if not following:
            lines.append(f"    {state} --> [*]")
    return "\n".join([*lines, "```"])


def acknowledgements() -> str:
    """``RULES`` as a table."""
    scopes = {
        acknowledgement.RANGE: "from first to last",
        acknowledgement.SINGLE: "the last alone",
        acknowledgement.NOTHING: "none",
    }
    outcomes = {
        acknowledgement.KEPT: "stay in flight",
        destination.CONSUMED: "consumed",
        destination.POISONED: "dead letter",
        destination.CLIENT_EXPIRED: "expired, if the generation believes the client",
    }
    narrows = {
        acknowledgement.BY_COUNT: "one for each",
        acknowledgement.BY_ONE: "one",
        acknowledgement.NOT: "none",
    }
    held = {
        acknowledgement.WAITS: "waits for the commit",
        acknowledgement.AT_ONCE: "acts at once",
        acknowledgement.REFUSED: "refused",
    }
    lines = [
        "| type | which deliveries | what becomes of them | slots of the extension taken back | in a transaction |",
        "|---|---|---|---|---|",
    ]
    for kind, rule in sorted(RULES.items()):
        cells = (scopes[rule.scope], outcomes[rule.outcome], narrows[rule.narrows], held[rule.in_transaction])
        lines.append(f"| {rule.name} ({kind}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def behaviours() -> str:
    """The policies and who makes them."""
    lines = ["| policy | class | file |", "|---|---|---|"]
    for policy, base in BASES.items():
        lines.append(
            f"| `{policy}` | `{base.__name__}` | `core/{base.__module__.split('.core.')[-1].replace('.', '/')}.py` |"
        )
    return "\n".join(lines)


def generations() -> str:
    """``GENERATIONS`` as a table."""
    lines = ["| area | generations, the default first |", "|---|---|"]
    return "\n".join([*lines, *(f"| {area} | {' · '.join(names)} |" for area, names in GENERATIONS.items())])


PICTURES = {
    "message-states": message_states,
    "acknowledgements": acknowledgements,
    "policies": behaviours,
    "generations": generations,
}


def drawn(text: str) -> str:
    """The document with its pictures drawn anew. Raises ``ValueError`` for a picture that it has no place for."""
    for name, draw in PICTURES.items():
        begin, end = f"<!-- {name}: written by conformance/commands/diagrams.py -->", f"<!-- end of {name} -->"
        if begin not in text or end not in text:
            raise ValueError(f"no place for {name}; add the lines {begin!r} and {end!r}")
        before, after = text.split(begin, maxsplit=1)[0], text.split(end)[1]
        text = f"{before}{begin}\n\n{draw()}\n\n{end}{after}"
    return text


def main(path: Path) -> None:
    """Draw."""
    path.write_text(drawn(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
