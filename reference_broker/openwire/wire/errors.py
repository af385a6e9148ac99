"""What can be wrong with bytes: one exception, so that nobody has to guess what a decoder may raise."""

from __future__ import annotations


class WireError(Exception):
    """The *peer* sent bytes that are no OpenWire, or we were asked to write what OpenWire cannot say. The text shows
    the value and the limit.
    """
