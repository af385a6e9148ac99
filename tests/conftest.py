"""What holds for all tests: how many examples a property has that does not say so itself, and no deadline for one."""

from __future__ import annotations

from hypothesis import settings

from tests.tools import examples

settings.register_profile("brokerproof tests", max_examples=examples(40), deadline=None)
settings.load_profile("brokerproof tests")
