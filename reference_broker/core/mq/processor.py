"""The delivery delay processor: when it runs, and what stops and restarts it.

* It opens the staging queue when the queue manager starts. Below command level 800 there is none.
* z/OS: without the queue, or with its GET disabled, it shuts down; defining or get-enabling the queue restarts it. PUT
  set to DISABLED stops it, however it was stopped, PUT from DISABLED to ENABLED restarts it.
* Elsewhere it recovers by itself: it runs whenever the queue is there with GET enabled; PUT does not concern it.
* STOP and START are an operator's, on any platform; while it is not running nothing is released and nothing is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from brokerproof.reference_broker.core.mq.definitions import DELAY_LEVEL

if TYPE_CHECKING:
    from brokerproof.reference_broker.core.mq.definitions import Definitions
    from brokerproof.reference_broker.core.mq.mqsc import Value

ABSENT: Final = "ABSENT"
RUNNING: Final = "RUNNING"
STOPPED: Final = "STOPPED"


@mypyc_attr(allow_interpreted_subclasses=True)
class Processor:
    """Policy ``mq_processor``: the state after each change."""

    def opened(self, definitions: Definitions) -> str:
        """OPENING: the state that an attempt to open the staging queue ends in."""
        if definitions.number("CMDLEVEL") < DELAY_LEVEL:
            return ABSENT
        queue = definitions.staging()
        usable = queue is not None and queue["GET"] == "ENABLED"
        if usable and definitions.on_zos():
            usable = queue is not None and queue["PUT"] == "ENABLED"
        return RUNNING if usable else STOPPED

    def stopped(self) -> str:
        """The state after STOP."""
        return STOPPED

    def leaves(self) -> bool:
        """Whether a message that somebody gets off the staging queue is on it no more."""
        return True

    def altered(self, state: str, before: dict[str, Value] | None, definitions: Definitions) -> str:
        """The state after the staging queue, or the queue manager, was changed; ``before`` is the queue as it was."""
        wanted = self.opened(definitions)
        if wanted != RUNNING or state == RUNNING:
            return wanted
        if not definitions.on_zos() or state == ABSENT:
            return wanted
        queue = definitions.staging()
        if before is None or queue is None:
            return wanted
        again = any(before[switch] == "DISABLED" and queue[switch] == "ENABLED" for switch in ("GET", "PUT"))
        return RUNNING if again else state
