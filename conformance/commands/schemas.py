"""Writes the JSON Schemas that the documents point to: ``python -m brokerproof.conformance.commands.schemas docs``.

They are derived from the classes, so they are written, never edited; tests compare the files with what this module
would write.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from brokerproof.conformance.experiment.history import json_schemas
from brokerproof.conformance.experiment.program import json_schema


def schemas() -> dict[str, Any]:
    """File name -> schema."""
    return {"program.schema.json": json_schema(), "history.schema.json": json_schemas()}


def main(folder: Path) -> None:
    """Write all files."""
    for name, schema in schemas().items():
        (folder / name).write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
