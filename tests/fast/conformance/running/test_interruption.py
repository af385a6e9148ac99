"""One wish to end is one, however often its sender signals it."""

from __future__ import annotations

import signal

import pytest

from brokerproof.conformance.running import interruption


class Clock:
    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns


def test_the_second_signal_of_one_sender_is_the_first_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(interruption, "time", clock)
    with interruption.interruptible() as stop:
        signal.raise_signal(signal.SIGINT)
        clock.now_ns = interruption.SAME_NS
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        clock.now_ns += 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert not stop.is_set()
