"""The one resolution of policy entries agrees with the broker's own, on entries and names that Hypothesis chooses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.conformance.experiment.configuration import DeclaredSpec, PolicySpec
from brokerproof.conformance.experiment.policies import DURABLE, QUEUE, TOPIC, UNASKED, entry_for, window_of
from brokerproof.conformance.facts.policy import Applied
from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.events import Subscribe
from brokerproof.reference_broker.core.matching import policy_for
from brokerproof.reference_broker.core.prefetch import Prefetch

ELEMENTS = st.sampled_from(["q0", "q1", "t0", "tv0", "A"])
NAMES = st.lists(ELEMENTS, min_size=1, max_size=3).map(".".join)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """A name, a wildcard, either perhaps of one kind."""
    elements = draw(st.lists(st.one_of(ELEMENTS, st.just("*")), min_size=0, max_size=3))
    if not elements or draw(st.booleans()):
        elements.append(">")
    return draw(st.sampled_from(["", "queue://", "topic://"])) + ".".join(elements)


@given(st.lists(patterns(), max_size=5), NAMES, st.booleans())
def test_the_same_entry_applies_as_in_the_broker(matches: list[str], dest: str, topic: bool) -> None:
    entries = [PolicySpec(match, expire_period_ms=number) for number, match in enumerate(matches)]
    found = entry_for(DeclaredSpec(policies=entries), dest, topic=topic)
    kind = "topic://" if topic else "queue://"
    policies = [DestinationPolicy(match, max_page_size=number + 1) for number, match in enumerate(matches)]
    wanted = policy_for(kind + dest, policies)
    assert (found.expire_period_ms + 1 if found is not None else None) == (
        wanted.max_page_size if wanted in policies else None
    )


def test_a_narrower_entry_hides_the_broader_one_whole() -> None:
    declared = DeclaredSpec(policies=[PolicySpec(">", memory_limit_bytes=4096), PolicySpec("q0", expire_period_ms=7)])
    assert Applied(declared, "q0", topic=False).memory_limit_bytes == 0
    assert Applied(declared, "q1", topic=False).memory_limit_bytes == 4096


@given(
    st.lists(st.tuples(patterns(), st.sampled_from([None, 1, 7])), max_size=4),
    st.sampled_from(["q0", "t0", "A.q0", "A.t0"]),
    st.sampled_from([UNASKED, QUEUE, DURABLE, TOPIC, 5]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_the_same_window_as_the_broker_gives(
    matches: list[tuple[str, int | None]], dest: str, asked: int, topic: bool, durable: bool, browser: bool
) -> None:
    entries = [PolicySpec(match, queue_prefetch=own, durable_topic_prefetch=own) for match, own in matches]
    found = window_of(DeclaredSpec(policies=entries), dest, asked, topic=topic, durable=durable, browser=browser)
    name = ("topic://" if topic else "queue://") + dest
    policies = [
        DestinationPolicy(match, queue_prefetch=own or QUEUE, durable_topic_prefetch=own or DURABLE)
        for match, own in matches
    ]
    event = Subscribe("c", "c/1", name, prefetch=asked, durable="d" if durable else "", browser=browser)
    assert found == Prefetch().granted(event, policy_for(name, policies))
