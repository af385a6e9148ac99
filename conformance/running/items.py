"""What one pytest item tells the controller: its verdicts and the digests of its runs, as a property of its report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from brokerproof.conformance.experiment.verdict import Verdict, join_all

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.results import RunResult

#: Key of the property that carries an item's verdicts.
PROPERTY = "brokerproof"
#: Seeds per item.
SHARD = 50
#: Programs of a machine's item: a few seconds.
EXAMPLES = 100
#: Where an item saves a program.
OUT = "brokerproof-out"


class ItemVerdicts(msgspec.Struct):
    """What one item tells the controller."""

    digests: list[str]
    cells: list[Verdict]


def report_results(results: Sequence[RunResult], properties: list[tuple[str, object]]) -> None:
    """Attach the verdicts of an item's runs to its report."""
    from brokerproof.conformance.experiment.results import run_digest  # the plugin must load at once

    digests = [run_digest(result.run, result.program.digest(), result.verdicts) for result in results]
    cells = join_all(verdict for result in results for verdict in result.verdicts)
    properties.append((PROPERTY, msgspec.json.encode(ItemVerdicts(digests, list(cells.values()))).decode()))
