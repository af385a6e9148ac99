"""Reason codes of IBM MQ, as refusals carry them: ``MQRC_Q_FULL`` with its number first in the text.

A refusal's code is the name, its text begins with the number and names every object that it concerns.
"""

from __future__ import annotations

from typing import Final

REASONS: Final[dict[str, int]] = {
    "MQRC_EXPIRY_ERROR": 2013,
    "MQRC_GET_INHIBITED": 2016,
    "MQRC_MSG_TOO_BIG_FOR_Q": 2030,
    "MQRC_NO_MSG_AVAILABLE": 2033,
    "MQRC_NOT_AUTHORIZED": 2035,
    "MQRC_OPTIONS_ERROR": 2046,
    "MQRC_PUT_INHIBITED": 2051,
    "MQRC_Q_FULL": 2053,
    "MQRC_UNKNOWN_OBJECT_NAME": 2085,
    "MQRC_FUNCTION_NOT_SUPPORTED": 2298,
    "MQRC_PUBLICATION_FAILURE": 2502,
}


def refusal(reason: str, text: str) -> tuple[str, str]:
    """(code, text) of a refused send."""
    return reason, f"{REASONS[reason]} {reason}: {text}"


def known(code: str) -> int:
    """The number of a refusal's code; 0 if it is none of IBM MQ's."""
    return REASONS.get(code, 0)
