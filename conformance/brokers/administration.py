"""What a program's operator asks a profile's broker for by its web pages (``[operations]``).

Rules: a word that the table does not have is not asked. A status of 400 or more is a refusal, with the answer as its
text; nobody there is the suite's trouble, not the broker's.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from brokerproof.conformance.brokers.base import Operated
from brokerproof.conformance.brokers.pages import asked, flat
from brokerproof.conformance.brokers.placeholders import filled
from brokerproof.conformance.brokers.profile import revealed
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.reference_broker.core.message import QUEUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from brokerproof.conformance.brokers.profile import Located

#: An answer that is a number alone has no fields.
_NUMBER: Final = re.compile(r"\s*(\d+)\s*")
_SHOWN: Final = 400


def administer(located: Located, values: Mapping[str, str], op: str, dest: str, to: str) -> Operated | None:
    """Have it done to a queue; None: this broker is not asked for that. Raises ``SuiteProblem``."""
    table, line = located.profile.operations, f"operations.{op}"
    if op not in table.words() or not dest.startswith(QUEUE):
        return None
    names = {"name": quote(dest.removeprefix(QUEUE), safe=""), "to": quote(to.removeprefix(QUEUE), safe="")}
    method, _, address = filled(getattr(table, op), {**values, **names}, located, line).rpartition(" ")
    try:
        page = asked(revealed(address, located, line), method or "POST")
    except OSError as error:
        raise SuiteProblem(str(located.wrong(line, f"{address} does not answer ({error})"))) from None
    if page.status >= 400:
        return Operated(None, f"{page.status} {page.text.strip()}"[:_SHOWN])
    return Operated(_count(page.text, table.count))


def _count(text: str, field: str) -> int | None:
    """How many messages an answer says that it concerned; None: it does not say."""
    if not field:
        return None
    found = _NUMBER.fullmatch(text)
    if found is not None:
        return int(found[1])
    try:
        told = flat(json.loads(text)).get(field)
    except ValueError:
        return None
    return told if isinstance(told, int) and not isinstance(told, bool) else None
