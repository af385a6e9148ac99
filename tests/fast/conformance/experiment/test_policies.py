"""Where dead letters of a program come to light."""

from __future__ import annotations

from brokerproof.conformance.experiment.configuration import BrokerSpec, DeadLetterSpec, PolicySpec
from brokerproof.conformance.experiment.destinations import Destination, Destinations, queues
from brokerproof.conformance.experiment.policies import own_dead_letter_queues

OWN = PolicySpec(dead_letter=DeadLetterSpec(strategy="individual"))


def test_a_composite_destination_has_no_dead_letter_queue_but_its_parts_have() -> None:
    """A name with a comma would be another composite one, of which the second part is a queue with messages."""
    both = Destination("q0,q1", "composite", [*queues("q0", "q1")])
    found = own_dead_letter_queues(BrokerSpec(policies=[OWN]), Destinations([*queues("q0"), both]))
    assert found == ["ActiveMQ.DLQ.Queue.q0", "ActiveMQ.DLQ.Queue.q1"]
