"""A connection that has ended while its host was about to use it: the host connects again, and nobody is accused."""

from __future__ import annotations

import pytest

from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment import history
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.worlds.executor import World
from brokerproof.conformance.worlds.port import Outcome, Waiting
from brokerproof.conformance.worlds.simulated.port import SimulatedPort

PROGRAM = "live-delay"


class Closing(SimulatedPort):
    """The broker has closed before the first ``count`` sends were read, and nobody had told."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def ask(self, operation: ops.ClientOperation) -> Waiting[Outcome]:
        if isinstance(operation, ops.Send) and self.count:
            self.count -= 1
            now_ns = self.true_ns()
            return Outcome(t0=now_ns, t1=now_ns, result="fail", refusal="not-connected: ended", unsent=True)
        return (yield from super().ask(operation))


@pytest.mark.parametrize(("count", "refused"), [(1, 0), (2, 0), (3, 1)])
def test_a_send_that_was_not_sent_is_sent_again(count: int, refused: int) -> None:
    events = World(Closing(count)).run(programs()[PROGRAM]).events
    sent = [event for event in events if isinstance(event, history.Send)]
    assert len([event for event in sent if event.result == "fail"]) == refused
    assert len([event for event in sent if event.result == "ok"]) == len(sent) - refused > 0
