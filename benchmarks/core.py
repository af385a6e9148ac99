"""What the pure core costs: cycles of send, dispatch, transmitted and acknowledge per second; what each policy costs
that is installed but idle; memory per queued message; and whether any of it grows with the backlog.

Run: ``python benchmarks/core.py [--rounds N] [--messages N] [--profile]``. CPU seconds of this process are what counts.
Every figure is compared within the same run: with a bare core of a hundred lines that does the same without policies,
with the same core before a policy was installed, or with a limit. The exit code is 1 when a limit is missed.

Limits
* at least 50,000 cycles per second with everything installed (200,000 if the core is compiled);
* an installed but idle policy costs at most 5 %;
* at most 1.5 KB per queued message beyond its body, with a million of them;
* a cycle costs at most 1.5 times as much behind a million messages (waiting, delayed, expiring) as behind a thousand.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import resource
import subprocess
import sys
import time
from collections import deque
from statistics import median

import brokerproof.reference_broker.core.broker as core
from brokerproof.reference_broker.core.broker import Broker
from brokerproof.reference_broker.core.config import BrokerConfig, DestinationPolicy, TimeStamping
from brokerproof.reference_broker.core.effects import Dispatch
from brokerproof.reference_broker.core.events import INDIVIDUAL, Ack, Connect, Send, Subscribe, Transmitted
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.core.message import Message

COMPILED = not str(core.__file__).endswith(".py")
CYCLES = 20_000
CYCLES_MIN = 200_000 if COMPILED else 50_000
IDLE_PERCENT_MAX = 5.0
BYTES_MAX = 1536
GROWTH_MAX = 1.5
BODY = b"x" * 64
WALL_MS = 1_800_000_000_000
BIG = 8 * 1024 * 1024 * 1024


class Bare:
    """The same cycle without policies, in-flight counts, memory or refusals: what Python itself costs here."""

    def __init__(self) -> None:
        self.waiting: deque[Message] = deque()
        self.unsettled: dict[str, Message] = {}
        self.in_flight = 0

    def handle(self, event: object) -> list[Dispatch]:
        if isinstance(event, Send):
            self.waiting.append(event.message)
            message = self.waiting.popleft()
            self.unsettled[message.message_id] = message
            return [Dispatch(2, "c", message, 0, True)]
        if isinstance(event, Transmitted):
            self.in_flight += 1
        elif isinstance(event, Ack):
            del self.unsettled[event.last]
            self.in_flight -= 1
        return []


def bare_rate(cycles: int) -> float:
    """Cycles per CPU second of the bare core."""
    broker = Bare()
    start = time.process_time()
    for number in range(cycles):
        name = f"m{number}"
        for effect in broker.handle(Send(1, Message(name, "queue://q", BODY, timestamp_ms=WALL_MS))):
            broker.handle(Transmitted(effect))
        broker.handle(Ack(2, "c", INDIVIDUAL, name))
    return cycles / (time.process_time() - start)


#: What can be installed and has nothing to do here: name -> settings beside the plainest.
IDLE: dict[str, dict[str, object]] = {
    "time-stamping": {"timestamping": TimeStamping(future_only=True)},
    "expiry sweep": {"destinations": [DestinationPolicy(">", expire_period_ms=30_000)]},
    "own memory limit": {"destinations": [DestinationPolicy(">", expire_period_ms=0, memory_limit_bytes=BIG)]},
    "broker memory limit": {"memory_limit_bytes": BIG},
}
EVERYTHING: dict[str, object] = {
    "timestamping": TimeStamping(future_only=True),
    "destinations": [DestinationPolicy(">", expire_period_ms=30_000, memory_limit_bytes=BIG)],
    "memory_limit_bytes": BIG,
}
PLAIN: dict[str, object] = {
    "memory_limit_bytes": 0,
    "destinations": [DestinationPolicy(">", expire_period_ms=0)],
}


def make_broker(settings: dict[str, object]) -> Broker:
    """A broker with a producer (connection 1) and a consumer of ``queue://q`` (connection 2)."""
    broker = Broker(BrokerConfig(**{**PLAIN, **settings}))  # type: ignore[arg-type]  # checked by BrokerConfig
    broker.handle(Connect(1, "p"), Now(0, WALL_MS))
    broker.handle(Connect(2, "c"), Now(0, WALL_MS))
    broker.handle(Subscribe(2, "c", "queue://q", 10), Now(0, WALL_MS))
    return broker


def cycle(broker: Broker, cycles: int, timestamp_ms: int = WALL_MS) -> float:
    """CPU seconds for so many messages through the queue, one after the other."""
    handle = broker.handle
    start = time.process_time()
    for number in range(cycles):
        now = Now(number, WALL_MS)
        name = f"m{number}"
        for effect in handle(Send(1, Message(name, "queue://q", BODY, timestamp_ms=timestamp_ms)), now):
            if isinstance(effect, Dispatch):
                handle(Transmitted(effect), now)
        handle(Ack(2, "c", INDIVIDUAL, name), now)
    return time.process_time() - start


def rate(settings: dict[str, object]) -> float:
    """Cycles per CPU second."""
    return CYCLES / cycle(make_broker(settings), CYCLES)


def idle_cost(settings: dict[str, object], rounds: int) -> float:
    """How much more a cycle costs with the settings than without, in percent: the median over pairs, first one then the
    other in turn, because the machine's speed drifts.
    """
    ratios = []
    for number in range(rounds):
        pair = [(False, {}), (True, settings)]
        seconds: dict[bool, float] = {}
        for installed, chosen in pair if number % 2 else reversed(pair):
            # Without a timestamp: one that the plug-in rewrites is work, not idling.
            seconds[installed] = cycle(make_broker(chosen), CYCLES, timestamp_ms=0)
        ratios.append(100 * (seconds[True] / seconds[False] - 1))
    return median(ratios)


def fill(broker: Broker, count: int, kind: str) -> None:
    """Queue ``count`` messages that nobody takes: waiting, delayed by an hour, or expiring (an hour to live)."""
    for number in range(count):
        message = Message(
            f"w{number}",
            "queue://backlog",
            BODY,
            timestamp_ms=WALL_MS,
            expiration_ms=WALL_MS + 3_600_000 + number if kind == "expiring" else 0,
            delay_ms=3_600_000 + number if kind == "delayed" else 0,
        )
        broker.handle(Send(1, message), Now(0, WALL_MS))


def backlog(kind: str, count: int) -> tuple[float, float, float]:
    """(bytes per message beyond the body, microseconds per queued message, microseconds per message taken off it)."""
    broker = make_broker(EVERYTHING)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gc.disable()  # the collector walks everything that is alive: a cost of this process, not of the broker
    start = time.process_time()
    fill(broker, count, kind)
    filled = time.process_time() - start
    size = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / count - len(BODY)
    if kind == "delayed":
        taken = cycle(broker, CYCLES)
        return size, filled / count * 1e6, taken / CYCLES * 1e6
    now = Now(1, WALL_MS)
    wanted = min(1000, count)
    start = time.process_time()
    pending = broker.handle(Subscribe(2, "b", "queue://backlog", 10), now)
    done = 0
    while done < wanted:
        following = []
        for effect in pending:
            if isinstance(effect, Dispatch):
                broker.handle(Transmitted(effect), now)
                following += broker.handle(Ack(2, "b", INDIVIDUAL, effect.message.message_id), now)
                done += 1
        pending = following
    return size, filled / count * 1e6, (time.process_time() - start) / wanted * 1e6


def backlog_apart(kind: str, count: int) -> tuple[float, float, float]:
    """``backlog`` in a process of its own: memory that was used once is not given back."""
    command = [sys.executable, __file__, "--backlog", kind, "--messages", str(count)]
    line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    size, filled, taken = (float(word) for word in line.split())
    return size, filled, taken


def print_profile() -> None:
    """The three largest costs."""
    profile = cProfile.Profile()
    broker = make_broker(EVERYTHING)
    profile.enable()
    cycle(broker, CYCLES)
    profile.disable()
    rows = pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]  # there since 2.5, not in the stubs
    total = sum(row[2] for _, row in rows)
    print("the three largest costs (own time):")
    for (file, _, name), row in sorted(rows, key=lambda item: -item[1][2])[:3]:
        print(
            f"  {100 * row[2] / total:5.1f} %  {name} ({file.rsplit('/', 1)[-1]}), {row[0] / CYCLES:.1f} calls a cycle"
        )


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--backlog", choices=("waiting", "delayed", "expiring"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.backlog:
        print(*backlog(options.backlog, options.messages))
        return 0
    missed = []
    print(f"core: {'compiled' if COMPILED else 'interpreted'}")
    rates = [rate(EVERYTHING) for _ in range(options.rounds)]
    bare = median(bare_rate(CYCLES) for _ in range(options.rounds))
    print(f"everything installed: {median(rates):,.0f} cycles/s; bare core: {bare:,.0f} ({median(rates) / bare:.2f})")
    if median(rates) < CYCLES_MIN:
        missed.append(f"{median(rates):,.0f} cycles/s is below {CYCLES_MIN:,}")
    for name, settings in IDLE.items():
        cost = idle_cost(settings, options.rounds)
        print(f"idle {name}: {cost:+.1f} %")
        if cost > IDLE_PERCENT_MAX:
            missed.append(f"idle {name} costs {cost:.1f} %")
    for kind in ("waiting", "delayed", "expiring"):
        _, small_fill, small_take = backlog_apart(kind, 1000)
        size, fill_us, take_us = backlog_apart(kind, options.messages)
        growth = max(fill_us / small_fill, take_us / small_take)
        print(
            f"{options.messages:,} {kind}: {size:,.0f} bytes each beyond the body; queue {fill_us:.1f} us"
            f" ({small_fill:.1f} behind 1,000), take {take_us:.1f} us ({small_take:.1f}); growth {growth:.2f}"
        )
        if size > BYTES_MAX:
            missed.append(f"{kind}: {size:,.0f} bytes per message")
        if growth > GROWTH_MAX:
            missed.append(f"{kind}: a message costs {growth:.2f} times as much behind {options.messages:,}")
    if options.profile:
        print_profile()
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
