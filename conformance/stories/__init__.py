"""The stories: the incidents of the founding documents, one command each (``brokerproof story``)."""

from __future__ import annotations

from functools import cache

from brokerproof.conformance.stories import clocks, delays, in_flight, links, memory, networks, staging
from brokerproof.conformance.stories.story import Half, Story, by_generation

__all__ = ["Half", "Story", "by_generation", "stories"]


@cache
def stories() -> dict[str, Story]:
    """All of them, by name, in the order of the documents."""
    chapters = (clocks, links, memory, in_flight, delays, staging, networks)
    return {story.name: story for chapter in chapters for story in chapter.stories()}
