"""Which messages a consumer wants: its selector and noLocal.

* A consumer wants a message if its selector is true for it (not unknown), and, with noLocal, if another connection sent
  it. What nobody wants waits. noLocal counts on queues too, as in ActiveMQ; JMS leaves that open.
* A dead letter is sent by the broker, so it is nobody's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.message import Message
    from brokerproof.reference_broker.core.subscription import Consumer


@mypyc_attr(allow_interpreted_subclasses=True)
class Selection:
    """Policy ``selection``. It is asked about selective consumers only (``Consumer.selective``)."""

    def wants(self, consumer: Consumer, message: Message) -> bool:
        """Whether this consumer is to be given this message at all."""
        if consumer.no_local and message.sender == consumer.connection:
            return False
        return consumer.filter is None or consumer.filter.selects(message)
