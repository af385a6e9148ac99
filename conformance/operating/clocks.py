"""``brokerproof clocks``: how far is a broker's clock from this host's, and what does that do to messages that expire?

It sends itself a few messages over a temporary queue (STOMP, OpenWire), or watches the management endpoint. Exit codes:
0 the clocks agree (or ``--ttl-ms`` is long enough), 1 they differ by more than ``--tolerance-ms`` (or it is too short),
3 it could not be told, 4 the broker does not answer.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from brokerproof.chaos.brokers.jolokia import JolokiaFailed
from brokerproof.conformance.brokers.base import Access
from brokerproof.conformance.brokers.line import Line, ProbeError
from brokerproof.conformance.experiment.exits import SuiteProblem, UsageError
from brokerproof.conformance.operating import advice, measuring
from brokerproof.conformance.operating.addresses import HTTP, MESSAGING, OPENWIRE, STOMP, Address, address
from brokerproof.conformance.operating.diagnose import asked, exit_code
from brokerproof.conformance.operating.measuring import CannotTell, Exchange
from brokerproof.conformance.operating.offset import Offset
from brokerproof.conformance.operating.openwire import OpenWireExchange

TOLERANCE_MS: Final = 1000
WAYS: Final = ("stamp", "expiry", "management")


def main(argv: Sequence[str]) -> int:
    """Measure, say what it means."""
    parser = argparse.ArgumentParser(prog="brokerproof clocks", description=__doc__)
    parser.add_argument(
        "--broker",
        default="activemq",
        metavar="NAME|URL",
        help="activemq, reference (STOMP at the default port), stomp://HOST:PORT, tcp://HOST:PORT (OpenWire), or the "
        "URL of a Jolokia endpoint",
    )
    parser.add_argument("--by", choices=WAYS, help="how to measure (default: the best way that the broker offers)")
    parser.add_argument(
        "--tolerance-ms",
        type=_milliseconds,
        default=TOLERANCE_MS,
        metavar="N",
        help=f"a difference that does not matter (default {TOLERANCE_MS})",
    )
    parser.add_argument("--ttl-ms", type=_life, metavar="N", help="a time to live: is it long enough here?")
    parser.add_argument("--json", action="store_true", help="the measurement, then one answer per line, as JSON")
    options = parser.parse_args(argv)
    where = address(options.broker, MESSAGING, (*STOMP, *OPENWIRE, *HTTP))
    offset, mode = measure(where, options.by)
    answers = advice.answers(offset, mode, options.tolerance_ms, options.ttl_ms)
    if options.json:
        rows = [_row(where, offset, mode), *(answer.row() for answer in answers)]
        sys.stdout.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        sys.stdout.write(f"broker at {where.shown}\n\n" + "\n".join(answer.text() for answer in answers))
    return exit_code(answers)


def measure(where: Address, way: str | None) -> tuple[Offset, str | None]:
    """(the offset, how the broker restamps if that can be seen). Raises ``SuiteProblem`` or ``UsageError``."""
    managed = where.scheme in HTTP
    if way is not None and managed != (way == "management"):
        fitting = "management" if managed else "stamp or expiry"
        raise UsageError(f"--by {way} cannot be used at {where.shown}; {where.scheme} allows {fitting}")
    try:
        return (asked(where, measuring.by_management), None) if managed else _by_messages(where, way)
    except (OSError, ProbeError, JolokiaFailed, CannotTell) as error:
        raise SuiteProblem(
            f"{where.shown}: {error}; is the broker running, and is that its address? A user and a password go into "
            "the URL, or into BROKERPROOF_USER and BROKERPROOF_PASSWORD"
        ) from None


def _by_messages(where: Address, way: str | None) -> tuple[Offset, str | None]:
    if where.scheme in OPENWIRE:
        with OpenWireExchange(where.host, where.port, where.credentials) as messages:
            return _by_exchange(messages, way)
    line, exchange = measuring.stomp_exchange(lambda: Line(_access(where)))
    with line:
        return _by_exchange(exchange, way)


def _access(where: Address) -> Access:
    login, passcode = where.credentials or ("", "")
    return Access(host=where.host, port=where.port, login=login, passcode=passcode)


def _by_exchange(exchange: Exchange, way: str | None) -> tuple[Offset, str | None]:
    offset = _offset(exchange, way)
    mode = measuring.plug_in(exchange, offset)
    if way == "expiry" and mode not in {None, measuring.ABSENT}:
        raise CannotTell("a time-stamping plug-in rewrites expirations there, so they tell nothing; use --by stamp")
    return offset, mode


def _offset(exchange: Exchange, way: str | None) -> Offset:
    by: dict[str, Callable[[Exchange], Offset]] = {"stamp": measuring.by_stamp, "expiry": measuring.by_expiry}
    if way is not None:
        return by[way](exchange)
    try:
        return measuring.by_stamp(exchange)
    except CannotTell:
        return measuring.by_expiry(exchange)


def _row(where: Address, offset: Offset, mode: str | None) -> dict[str, Any]:
    return {
        "broker": where.shown,
        "offset_ms": round(offset.middle_ms, 3),
        "plus_minus_ms": round(offset.plus_minus_ms, 3),
        "way": offset.way,
        "readings": offset.readings,
        "steady": offset.steady,
        "restamps": mode,
        "smallest_ttl_ms": {one: advice.smallest_ttl_ms(offset, one) for one in advice.MODES},
    }


def _milliseconds(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds; give 0 or more")


def _life(text: str) -> int:
    if text == "0":
        raise argparse.ArgumentTypeError("a message with a time to live of 0 never expires; give 1 or more")
    return _milliseconds(text)
