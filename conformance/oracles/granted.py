"""The window that a consumer gets: what it asked for, a default of its kind, or what the policy says instead.

Rules (ActiveMQ's): who asks for nothing gets the default of its kind; a policy entry's value replaces a default, asked
for or not, and nothing else.

What must change together: ``program.py`` (the policy's words), ``oracles/windows.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from brokerproof.conformance.experiment.destinations import is_topic
from brokerproof.conformance.oracles.records import fitting

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.configuration import DestinationSpec

#: A consumer that asks for no number.
UNASKED: Final = -1
QUEUE: Final = 1000
BROWSER: Final = 500
DURABLE: Final = 100
TOPIC: Final = 32767


def default_window(dest: str, *, durable: bool, browser: bool) -> int:
    """What a consumer of a kind gets that asks for nothing."""
    if browser:
        return BROWSER
    if not is_topic(dest):
        return QUEUE
    return DURABLE if durable else TOPIC


def policy_window(entries: list[DestinationSpec], dest: str, *, durable: bool, browser: bool) -> int | None:
    """What a policy says about a kind of consumer; None if it says nothing, or its entries compete."""
    applying = fitting(entries, dest)
    if browser or len(applying) != 1 or (is_topic(dest) and not durable):
        return None
    return applying[0].durable_topic_prefetch if is_topic(dest) else applying[0].queue_prefetch


def window_of(entries: list[DestinationSpec], dest: str, asked: int, *, durable: bool, browser: bool) -> int:
    """The window that it must get."""
    default = default_window(dest, durable=durable, browser=browser)
    if asked not in (UNASKED, default):
        return asked
    configured = policy_window(entries, dest, durable=durable, browser=browser)
    return default if configured is None else configured
