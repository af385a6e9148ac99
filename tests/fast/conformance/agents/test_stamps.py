"""When something arrived and what the wall clock shows: intervals that must hold the truth."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from brokerproof.conformance.agents import stamps
from brokerproof.conformance.agents.stamps import ArrivalClock, Arrivals, kernel_stamp_ns, wall_reading

#: The kernel's wall clock minus the monotonic clock, and half of what a measurement took.
OFFSET_NS = 1_795_000_000_000_000_000
ERROR_NS = 2_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ArrivalClock:
    monkeypatch.setattr(ArrivalClock, "_bounce", lambda self: (OFFSET_NS, ERROR_NS))
    return ArrivalClock()


def stamped(mono_ns: int) -> list[tuple[int, int, bytes]]:
    seconds, nanos = divmod(mono_ns + OFFSET_NS, 1_000_000_000)
    return [(socket.SOL_SOCKET, stamps.SO_TIMESTAMPNS, struct.pack("qq", seconds, nanos))]


def test_a_stamp_is_known_as_well_as_the_offset(clock: ArrivalClock) -> None:
    at_ns = 5_000_000_000
    assert clock.interval(stamped(at_ns), at_ns - 900_000, at_ns + 900_000) == (at_ns - ERROR_NS, at_ns + ERROR_NS)


def test_the_interval_never_leaves_what_the_process_itself_saw(clock: ArrivalClock) -> None:
    at_ns = 5_000_000_000
    assert clock.interval(stamped(at_ns), at_ns - 500, at_ns + 700) == (at_ns - 500, at_ns + 700)


def test_without_a_stamp_only_the_empty_socket_counts(clock: ArrivalClock) -> None:
    assert clock.interval([], 1000, 2000) == (1000, 2000)


@pytest.mark.parametrize("off_ns", [-3_600_000_000_000, 3_600_000_000_000])
def test_a_stamp_that_cannot_be_true_is_not_believed(clock: ArrivalClock, off_ns: int) -> None:
    """The kernel's wall clock was set since the offset was measured."""
    at_ns = 5_000_000_000
    assert clock.interval(stamped(at_ns + off_ns), at_ns - 100, at_ns + 100) == (at_ns - 100, at_ns + 100)


def test_the_offset_is_measured_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = iter([(OFFSET_NS, ERROR_NS)] * 5 + [(OFFSET_NS + 50_000, ERROR_NS)] * 5)
    monkeypatch.setattr(ArrivalClock, "_bounce", lambda self: next(offsets))
    clock = ArrivalClock()
    at_ns = time.monotonic_ns()
    assert clock.interval(stamped(at_ns), at_ns - 900_000, at_ns + 900_000)[0] == at_ns - ERROR_NS
    later_ns = at_ns + 3_000_000_000
    low_ns, _ = clock.interval(stamped(later_ns), later_ns - 900_000, later_ns + 900_000)
    assert low_ns == later_ns - 50_000 - ERROR_NS


@pytest.mark.parametrize("moved_ns", [-50_000, 0, 50_000])
def test_what_one_connection_brings_keeps_its_order(monkeypatch: pytest.MonkeyPatch, moved_ns: int) -> None:
    """The clocks are compared anew between two reads, and their difference comes out otherwise than before."""
    offsets = iter([(OFFSET_NS, ERROR_NS)] * 5 + [(OFFSET_NS + moved_ns, ERROR_NS)] * 5)
    monkeypatch.setattr(ArrivalClock, "_bounce", lambda self: next(offsets))
    clock, arrivals = ArrivalClock(), Arrivals()
    at_ns = arrivals.earliest_ns + 100_000
    first_ns, low_ns, high_ns = arrivals.read(clock, stamped(at_ns), at_ns + 10_000)
    assert first_ns <= low_ns <= at_ns <= high_ns
    later_ns = at_ns + 5_000
    monkeypatch.setattr(stamps, "_FRESH_NS", 0)
    again_ns, low_later_ns, high_later_ns = arrivals.read(clock, stamped(later_ns), later_ns + 60_000)
    assert low_ns <= again_ns <= low_later_ns <= high_later_ns
    assert high_ns <= high_later_ns


def test_what_is_stamped_after_a_read_without_a_stamp_arrived_no_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArrivalClock, "_bounce", lambda self: (OFFSET_NS, ERROR_NS))
    clock, arrivals = ArrivalClock(), Arrivals()
    at_ns = arrivals.earliest_ns + 100_000
    assert arrivals.read(clock, [], at_ns)[2] == at_ns
    assert arrivals.read(clock, stamped(at_ns - 50_000), at_ns + 10_000)[2] == at_ns


def test_a_machine_whose_kernel_stamps_nothing_still_has_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArrivalClock, "_bounce", lambda self: None)
    assert ArrivalClock().interval(stamped(1500), 1000, 2000) == (1000, 2000)


def test_foreign_control_messages_are_no_stamps() -> None:
    assert kernel_stamp_ns([(socket.SOL_SOCKET, 1, b"")]) is None
    assert kernel_stamp_ns([(socket.SOL_SOCKET, stamps.SO_TIMESTAMPNS, b"short")]) is None


def test_the_kernel_of_this_machine_stamps_to_the_microsecond() -> None:
    """Not a mock: a datagram to ourselves must be dated between its sending and its reading."""
    clock = ArrivalClock()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.connect(sock.getsockname())
        sock.settimeout(2)
        stamps.ask_for_stamps(sock)
        before_ns = time.monotonic_ns()
        sock.send(b"!")
        _, ancillary, _, _ = sock.recvmsg(1, stamps.ANCILLARY_BYTES)
        low_ns, high_ns = clock.interval(ancillary, before_ns, time.monotonic_ns())
    clock.close()
    assert before_ns <= low_ns <= high_ns


def test_a_wall_reading_names_the_instant_at_which_its_millisecond_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic_ns", iter([7_000_000, 7_000_400]).__next__)
    monkeypatch.setattr(time, "time_ns", lambda: 1_795_000_000_123_250_000)
    assert wall_reading() == (1_795_000_000_123, (6_750_000, 6_750_400))
