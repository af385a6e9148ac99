"""Reading a history file, of this version or the one before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from brokerproof.conformance.experiment.history import FORMAT, AnyEvent, Event, Header, History
from brokerproof.conformance.experiment.versions import HISTORY_1, destinations_named, event_2, header_2, names_in

_header_decoder = msgspec.json.Decoder(Header)
_event_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
#: What a line of version 1 must hold to be another one in version 2.
_CHANGED = (b'"visit"', b'"connect"')


class HistoryError(ValueError):
    """A history cannot be read. The text names the line, shows the offending value and says what was expected."""

    exit_code = 2


def read_history(path: Path) -> History:
    """Read a history file. Raises ``HistoryError`` naming the file, the line and the value; a missing file is a
    ``HistoryError`` too.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read ({error.strerror}); give the path of a history.jsonl") from None
    return parse_history(data, str(path))


def parse_history(data: bytes, name: str = "history") -> History:
    """Parse JSON lines into a ``History``; see ``read_history`` for the errors."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    if not lines:
        raise HistoryError(f"{name}: is empty; the first line must be a header with format {FORMAT!r}")
    header, is_old = _parse_header(lines[0], name)
    if not is_old:
        return History(header, list(_parse_events(lines[1:], name)))
    events = list(_parse_events([_converted(line) for line in lines[1:]], name))
    declared = destinations_named(names_in(events))
    return History(msgspec.structs.replace(header, destinations=declared), events)


def _converted(line: bytes) -> bytes:
    """A line of version 1 as one of version 2; what is no event stays as it is."""
    if not any(word in line for word in _CHANGED):
        return line
    try:
        fields = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return line
    return msgspec.json.encode(event_2(fields)) if isinstance(fields, dict) else line


def _parse_header(line: bytes, name: str) -> tuple[Header, bool]:
    """The header, and whether the history is of version 1."""
    try:
        fields = msgspec.json.decode(line)
        is_old = isinstance(fields, dict) and fields.get("format") == HISTORY_1
        header = msgspec.convert(header_2(fields), Header) if is_old else _header_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError) as error:
        raise HistoryError(f"{name}:1: not a history header: {error}; it reads {_excerpt(line)}") from None
    if header.format != FORMAT:
        raise HistoryError(f"{name}:1: format is {header.format!r}; this release reads {FORMAT!r} and 1")
    return header, is_old


def _parse_events(lines: list[bytes], name: str) -> Iterator[Event]:
    previous_t1 = -1
    previous_seq = -1
    for number, line in enumerate(lines, start=2):
        try:
            event = _event_decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HistoryError(f"{name}:{number}: not an event: {error}; it reads {_excerpt(line)}") from None
        if event.t1 < event.t0:
            raise HistoryError(
                f"{name}:{number}: t1={event.t1} is before t0={event.t0}; an event's interval must not be negative"
            )
        if event.t1 < previous_t1:
            raise HistoryError(
                f"{name}:{number}: t1={event.t1} is before the line above (t1={previous_t1}); sort the events by t1"
            )
        if event.seq <= previous_seq:
            raise HistoryError(
                f"{name}:{number}: seq={event.seq} does not rise (line above: {previous_seq}); number events in order"
            )
        previous_t1 = event.t1
        previous_seq = event.seq
        yield event


def _excerpt(line: bytes, limit: int = 120) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= limit else text[:limit] + "…")
