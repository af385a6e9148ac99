"""Answers and errors (openwire.md 8.3), and which Java exception says what.

A code of the core has the exception that ActiveMQ throws in that case; what has none is a JMSException. The names are
those of the ``javax.jms`` package: newer clients translate them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from brokerproof.reference_broker.openwire.commands import Command, ConnectionFault, ExceptionResponse, Response
from brokerproof.reference_broker.openwire.translation.names import number
from brokerproof.reference_broker.openwire.wire import connections
from brokerproof.reference_broker.openwire.wire import responses as kinds
from brokerproof.reference_broker.openwire.wire.kinds import Data, Kind, Throwable

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.reference_broker.openwire.translation.context import Context

_JMS: Final = "javax.jms.JMSException"
_CLASSES: Final = {
    "bad-destination": "javax.jms.InvalidDestinationException",
    "unknown-destination": "org.apache.activemq.DestinationDoesNotExistException",
    "unknown-subscription": "javax.jms.InvalidDestinationException",
    "bad-selector": "javax.jms.InvalidSelectorException",
    "client-id-in-use": "javax.jms.InvalidClientIDException",
    "no-client-id": "javax.jms.InvalidClientIDException",
    "no-space": "javax.jms.ResourceAllocationException",
    "storage-full": "javax.jms.ResourceAllocationException",
    "storage-failed": "javax.jms.ResourceAllocationException",
    "unknown-connection": "java.lang.IllegalStateException",
    "unknown-session": "java.lang.IllegalStateException",
    "unknown-producer": "java.lang.IllegalStateException",
    "not-authorized": "java.lang.SecurityException",
    "not-authenticated": "java.lang.SecurityException",
}


def _fault(text: str, code: str) -> Throwable:
    return Throwable(_CLASSES.get(code, _JMS), text)


def _write_response(_context: Context, answer: Response) -> Data:
    return kinds.ANSWER.make(correlationId=answer.correlation_id)


def _write_exception(_context: Context, answer: ExceptionResponse) -> Data:
    return kinds.EXCEPTION_RESPONSE.make(
        correlationId=answer.correlation_id, exception=_fault(answer.text, answer.code)
    )


def _write_fault(_context: Context, fault: ConnectionFault) -> Data:
    return connections.CONNECTION_ERROR.make(exception=_fault(fault.text, fault.code))


def _read_response(_context: Context, data: Data) -> Command:
    return Response(number(data["correlationId"]))


def _read_exception(_context: Context, data: Data) -> Command:
    text, kind = _words(data["exception"])
    return ExceptionResponse(number(data["correlationId"]), text, kind)


def _read_fault(_context: Context, data: Data) -> Command:
    text, kind = _words(data["exception"])
    return ConnectionFault(text, kind)


def _words(value: object) -> tuple[str, str]:
    """What an exception says, and its class in place of a code."""
    if isinstance(value, Throwable):
        return value.message or "", value.type or ""
    return "", ""


READERS: Final[dict[Kind, Callable[[Context, Data], Command]]] = {
    kinds.ANSWER: _read_response,
    kinds.DATA_RESPONSE: _read_response,
    kinds.DATA_ARRAY_RESPONSE: _read_response,
    kinds.INTEGER_RESPONSE: _read_response,
    kinds.EXCEPTION_RESPONSE: _read_exception,
    connections.CONNECTION_ERROR: _read_fault,
}
WRITERS: Final[dict[type[Command], Callable[[Context, Any], Data]]] = {
    Response: _write_response,
    ExceptionResponse: _write_exception,
    ConnectionFault: _write_fault,
}
