"""Times as a person reads them: exact, short, with their unit.

Rules: nothing is rounded away silently (a value that needs more digits gets them), minus is the real minus sign so that
it survives narrow columns, and an absolute wall time is always UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NS_PER_MS = 1_000_000
MINUS = "\u2212"
#: Unit -> nanoseconds, largest first; ``h`` and ``min`` are used only for whole multiples of a millisecond.
UNITS: tuple[tuple[str, int], ...] = (
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration_text(value_ns: int, *, sign: bool = False) -> str:
    """``120000000000`` -> ``2 min``, ``1001000000`` -> ``1.001 s``, ``-300000000000`` -> ``-5 min`` (real minus).

    ``sign`` puts a plus before what is positive.
    """
    prefix = MINUS if value_ns < 0 else "+" if sign and value_ns > 0 else ""
    rest = abs(value_ns)
    words = []
    for unit, size in UNITS:
        whole, rest = divmod(rest, size)
        if whole:
            words.append(f"{whole} {unit}")
    if rest or not words:
        words.append(_below_minute(rest))
    return prefix + " ".join(words)


def milliseconds_text(value_ms: int, *, sign: bool = False) -> str:
    """``duration_text`` for milliseconds."""
    return duration_text(value_ms * NS_PER_MS, sign=sign)


def rounded_text(value_ns: int, *, sign: bool = False) -> str:
    """For labels in a drawing.

    At most three figures after the point of a millisecond are kept, of a second likewise.
    """
    size = abs(value_ns)
    step = NS_PER_MS if size >= 1000 * NS_PER_MS else 1000
    return duration_text(round(value_ns / step) * step, sign=sign)


def offset_text(offset_ns: int, error_ns: int) -> str:
    """How far a clock is off: ``+1 h``; ``right`` where only a small reading error separates it from that."""
    right = abs(offset_ns) <= max(error_ns, 1000) and error_ns < 1_000_000_000
    return "right" if right else rounded_text(offset_ns, sign=True)


def true_text(value_ns: int) -> str:
    """True time since the start of the run, in milliseconds with microseconds: ``60 000.123``."""
    return f"{value_ns / NS_PER_MS:,.3f}".replace(",", "\u202f")


def wall_text(wall_ns: int, error_ns: int = NS_PER_MS) -> str:
    """A wall time (nanoseconds since the epoch) as ``2026-11-21 03:27:11.123``, UTC; microseconds where they are known.

    Far years are a plain number of milliseconds.
    """
    whole_ms = wall_ns // NS_PER_MS
    try:
        moment = EPOCH + timedelta(milliseconds=whole_ms)
    except OverflowError:
        return f"{whole_ms} ms"
    micros = f"\u202f{wall_ns // 1000 % 1000:03d}" if error_ns < NS_PER_MS // 2 else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}.{whole_ms % 1000:03d}{micros}"


def bytes_text(size: int) -> str:
    """``1048576`` -> ``1 MiB``; what is no whole multiple stays in bytes."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def _below_minute(rest_ns: int) -> str:
    if rest_ns >= 1_000_000_000:
        return f"{_trimmed(rest_ns, 1_000_000_000)} s"
    if rest_ns >= NS_PER_MS or rest_ns == 0:
        return f"{_trimmed(rest_ns, NS_PER_MS)} ms"
    if rest_ns >= 1000:
        return f"{_trimmed(rest_ns, 1000)} µs"
    return f"{rest_ns} ns"


def _trimmed(value: int, unit: int) -> str:
    whole, part = divmod(value, unit)
    if not part:
        return str(whole)
    digits = str(part).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{whole}.{digits}"
