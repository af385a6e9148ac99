"""Identifiers and destinations: structures on the wire, texts in commands and in the core.

Rules (openwire.md 8.1)
* A text form is the one that ActiveMQ logs: session ``conn:s``, consumer ``conn:s:c``, producer ``conn:s:p``, message
  ``conn:s:p:n``, local transaction ``TX:conn:n``. Numbers are the last parts, so a connection id may have colons.
* A message id that is not ours to take apart (another protocol's) travels as a producer of its own: its connection id
  is the whole text, its numbers are ``FOREIGN``, and ``textView`` shows it to JMS. Acknowledgements bring it back.
* A destination is ``queue://N`` here, a kind and a bare name there. ClientState of a composite that are of the same
  kind have no prefix on the wire. Options after ``?`` are cut off; the client has read them.
"""

from __future__ import annotations

from typing import Final

from brokerproof.reference_broker.core.message import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC
from brokerproof.reference_broker.openwire.commands import XA
from brokerproof.reference_broker.openwire.wire import ids
from brokerproof.reference_broker.openwire.wire.errors import WireError
from brokerproof.reference_broker.openwire.wire.kinds import Data, Kind

#: In place of numbers that a message id does not have.
FOREIGN: Final = -7
_FOREIGN_NUMBERS: Final = f":{FOREIGN}:{FOREIGN}"
_PREFIX: Final[dict[int, str]] = {
    ids.QUEUE.number: QUEUE,
    ids.TOPIC.number: TOPIC,
    ids.TEMP_QUEUE.number: TEMP_QUEUE,
    ids.TEMP_TOPIC.number: TEMP_TOPIC,
}
_KIND: Final[dict[str, Kind]] = {
    QUEUE: ids.QUEUE,
    TOPIC: ids.TOPIC,
    TEMP_QUEUE: ids.TEMP_QUEUE,
    TEMP_TOPIC: ids.TEMP_TOPIC,
}
#: How many structures are remembered by their names; more are made each time.
_REMEMBERED: Final = 4096


def text(value: object) -> str:
    """A text of the wire; null is empty."""
    return value if isinstance(value, str) else ""


def number(value: object) -> int:
    """A number of the wire."""
    return value if isinstance(value, int) else 0


def flag(value: object) -> bool:
    """A boolean of the wire."""
    return value is True


def data_of(value: object, *kinds: Kind) -> Data:
    """A nested structure of one of these kinds. Raises ``WireError``."""
    if isinstance(value, Data) and value.kind in kinds:
        return value
    raise WireError(f"{value!r:.60} stands where {' or '.join(kind.name for kind in kinds)} was expected")


# -- destinations


def destination_name(value: object) -> str:
    """``queue://N`` of a destination; "" of null. Raises ``WireError``."""
    if value is None:
        return ""
    if isinstance(value, Data) and value.text is not None and value.kind is not ids.PRODUCER_ID:
        return value.text
    data = data_of(value, ids.QUEUE, ids.TOPIC, ids.TEMP_QUEUE, ids.TEMP_TOPIC)
    data.text = _destination_name(data)
    return data.text


def _destination_name(data: Data) -> str:
    prefix = _PREFIX[data.kind.number]
    name = text(data.values[0])
    if "?" in name:
        name = name[: name.index("?")]
    if "," not in name:
        return prefix + name
    return ",".join(
        part if part.startswith(tuple(_KIND)) else prefix + part for part in (one.strip() for one in name.split(","))
    )


class Destinations:
    """Names to structures, each made once: the writer's cache finds what is the same."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[str, Data] = {}

    def data(self, name: str) -> Data | None:
        """The structure of ``queue://N``; None of ""."""
        if not name:
            return None
        found = self._made.get(name)
        if found is None:
            found = destination_data(name)
            if len(self._made) < _REMEMBERED:
                self._made[name] = found
        return found


def destination_data(name: str) -> Data:
    """The structure of a name. Raises ``WireError`` for one without a kind."""
    parts = name.split(",")
    prefix, separator, _ = parts[0].partition("://")
    kind = _KIND.get(prefix + separator)
    if kind is None:
        raise WireError(f"{name!r} has no kind; write queue:// or topic:// in front")
    mine = prefix + separator
    return Data(kind, [",".join(part.removeprefix(mine) for part in parts)])


# -- identifiers


def connection_text(value: object) -> str:
    """A connection's id."""
    return text(data_of(value, ids.CONNECTION_ID).values[0])


def connection_data(name: str) -> Data:
    """The structure of a connection's id."""
    return Data(ids.CONNECTION_ID, [name])


def session_text(value: object) -> str:
    """``conn:s``."""
    connection, session = data_of(value, ids.SESSION_ID).values
    return f"{connection}:{session}"


def session_data(name: str) -> Data:
    """The structure of ``conn:s``. Raises ``WireError``."""
    connection, session = _taken_apart(name, 1, "session")
    return Data(ids.SESSION_ID, [connection, session])


def consumer_text(value: object) -> str:
    """``conn:s:c``."""
    connection, session, consumer = data_of(value, ids.CONSUMER_ID).values
    return f"{connection}:{session}:{consumer}"


def consumer_data(name: str) -> Data:
    """The structure of ``conn:s:c``. Raises ``WireError``."""
    connection, session, consumer = _taken_apart(name, 2, "consumer")
    return Data(ids.CONSUMER_ID, [connection, session, consumer])


def producer_text(value: object) -> str:
    """``conn:s:p``: the session's number first, unlike on the wire. "" of null."""
    if value is None:
        return ""
    data = data_of(value, ids.PRODUCER_ID)
    if data.text is not None:
        return data.text
    connection, producer, session = data.values
    data.text = f"{connection}:{session}:{producer}"
    return data.text


def producer_data(name: str) -> Data:
    """The structure of ``conn:s:p``. Raises ``WireError``."""
    connection, session, producer = _taken_apart(name, 2, "producer")
    return Data(ids.PRODUCER_ID, [connection, producer, session])


def message_text(value: object) -> str:
    """``conn:s:p:n``, or the foreign id that it stands for; "" of null. What ``textView`` says does not count."""
    if value is None:
        return ""
    _, producer, count, _ = data_of(value, ids.MESSAGE_ID).values
    name = producer_text(data_of(producer, ids.PRODUCER_ID))
    return name.removesuffix(_FOREIGN_NUMBERS) if name.endswith(_FOREIGN_NUMBERS) else f"{name}:{count}"


def message_data(name: str, sequence: int, view: str | None, producers: dict[str, Data]) -> Data:
    """The structure of a message id; ``sequence`` is the broker's, ``view`` the textView that it came with.
    ``producers`` remembers what was made.
    """
    key, _, count = name.rpartition(":")
    producer = producers.get(key)
    if producer is None:
        try:
            producer = producer_data(key)
        except WireError:
            return _foreign(name, sequence)
        if len(producers) < _REMEMBERED:
            producers[key] = producer
    if not _is_number(count):
        return _foreign(name, sequence)
    return Data(ids.MESSAGE_ID, [view, producer, int(count), sequence])


def _foreign(name: str, sequence: int) -> Data:
    return Data(ids.MESSAGE_ID, [name, Data(ids.PRODUCER_ID, [name, FOREIGN, FOREIGN]), 0, sequence])


def transaction_text(value: object) -> str:
    """``TX:conn:n``; "" of null. An XA transaction is ``XA:format:global:branch``, in hexadecimal."""
    if value is None:
        return ""
    data = data_of(value, ids.LOCAL_TRANSACTION_ID, ids.XA_TRANSACTION_ID)
    if data.kind is ids.LOCAL_TRANSACTION_ID:
        return f"TX:{connection_text(data.values[1])}:{data.values[0]}"
    parts = [part.hex() if isinstance(part, bytes) else "" for part in data.values[1:]]
    return f"{XA}{data.values[0]}:{':'.join(parts)}"


def transaction_data(name: str) -> Data | None:
    """The structure of ``TX:conn:n``; None of "". Raises ``WireError``."""
    if not name:
        return None
    key, count = _taken_apart(name.removeprefix("TX:"), 1, "transaction")
    return Data(ids.LOCAL_TRANSACTION_ID, [count, connection_data(str(key))])


def _taken_apart(name: str, count: int, what: str) -> list[str | int]:
    """The connection's part of an id, and the numbers behind it."""
    parts = name.rsplit(":", count)
    if len(parts) != count + 1 or not all(map(_is_number, parts[1:])):
        raise WireError(f"{what} {name!r} has no numbers at its end; OpenWire needs {count}")
    return [parts[0], *map(int, parts[1:])]


def _is_number(text: str) -> bool:
    digits = text[1:] if text[:1] == "-" else text
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and (digits[0] != "0" or text == "0")
