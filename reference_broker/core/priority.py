"""Message priorities: on a queue whose policy entry says ``prioritized_messages``, a message of higher JMSPriority is
handed out before all waiting ones of lower priority; equals keep their order.

Rules: ten priorities, 0 to 9; what a client sends beyond counts as the nearest. Off by default, as in ActiveMQ: then
priority is carried and changes nothing. What is in flight already is not overtaken. Priority decides who leaves the
queue first, not what is kept in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message

HIGHEST: Final = 9


@mypyc_attr(allow_interpreted_subclasses=True)
class Priority:
    """Policy ``priority``. It is asked on queues with ``prioritized_messages`` only."""

    def rank(self, message: Message) -> int:
        """0 goes first."""
        return HIGHEST - min(max(message.priority, 0), HIGHEST)
