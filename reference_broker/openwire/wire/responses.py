"""Answers to commands that asked for one (openwire.md 8.3)."""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.openwire.wire.kinds import ARRAY, I32, OBJECT, RESPONSE, THROWABLE, Field, Kind

ANSWER: Final = Kind(30, "Response", *RESPONSE)
EXCEPTION_RESPONSE: Final = Kind(31, "ExceptionResponse", *RESPONSE, Field("exception", THROWABLE))
DATA_RESPONSE: Final = Kind(32, "DataResponse", *RESPONSE, Field("data", OBJECT))
DATA_ARRAY_RESPONSE: Final = Kind(33, "DataArrayResponse", *RESPONSE, Field("data", ARRAY))
INTEGER_RESPONSE: Final = Kind(34, "IntegerResponse", *RESPONSE, Field("result", I32))

KINDS: Final[tuple[Kind, ...]] = (ANSWER, EXCEPTION_RESPONSE, DATA_RESPONSE, DATA_ARRAY_RESPONSE, INTEGER_RESPONSE)
