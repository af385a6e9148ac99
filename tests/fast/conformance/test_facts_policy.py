"""The one resolution of policy entries agrees with the broker's own, on entries and names that Hypothesis chooses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.conformance.experiment.configuration import DeclaredSpec, DestinationSpec
from brokerproof.conformance.facts.policy import Applied, entry_for
from brokerproof.reference_broker.core.config import DestinationPolicy
from brokerproof.reference_broker.core.matching import policy_for

ELEMENTS = st.sampled_from(["q0", "q1", "t0", "tv0", "A"])
NAMES = st.lists(ELEMENTS, min_size=1, max_size=3).map(".".join)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """A name, a wildcard, either perhaps of one kind."""
    elements = draw(st.lists(st.one_of(ELEMENTS, st.just("*")), min_size=0, max_size=3))
    if not elements or draw(st.booleans()):
        elements.append(">")
    return draw(st.sampled_from(["", "queue://", "topic://"])) + ".".join(elements)


@given(st.lists(patterns(), max_size=5), NAMES)
def test_the_same_entry_applies_as_in_the_broker(matches: list[str], dest: str) -> None:
    entries = [DestinationSpec(match, expire_period_ms=number) for number, match in enumerate(matches)]
    found = entry_for(DeclaredSpec(destinations=entries), dest)
    kind = "topic://" if dest.startswith("t") else "queue://"
    policies = [DestinationPolicy(match, max_page_size=number + 1) for number, match in enumerate(matches)]
    wanted = policy_for(kind + dest, policies)
    assert (found.expire_period_ms + 1 if found is not None else None) == (
        wanted.max_page_size if wanted in policies else None
    )


def test_a_narrower_entry_hides_the_broader_one_whole() -> None:
    declared = DeclaredSpec(
        destinations=[DestinationSpec(">", memory_limit_bytes=4096), DestinationSpec("q0", expire_period_ms=7)]
    )
    assert Applied(declared, "q0").memory_limit_bytes == 0
    assert Applied(declared, "q1").memory_limit_bytes == 4096
