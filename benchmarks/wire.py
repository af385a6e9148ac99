"""How many messages a second brokers pass on, over STOMP and OpenWire, and how long a message takes at half of that.

Run: ``python benchmarks/wire.py [--rounds N] [--seconds N] [--only NAME …]``. Bodies of 1 KiB; non-persistent and
persistent (a receipt for each message, a store on disk); one and eight producers, each with a queue and a consumer. One
load generator for all (``wire_load.py``) in a process of its own. All brokers run beside each other and take turns, so
that the neighbours' noise meets all. The processor time per message is the broker's own and knows no neighbours.

What there is: the reference broker as it is served, ActiveMQ Classic (Debian's release, the whole JIT compiler), and
RabbitMQ with its STOMP plug-in (Debian's release), and CoilMQ, the one STOMP broker in Python that still installs and
starts; its queues are in memory, so it has no persistent figures, and it cannot read a frame that comes in two pieces,
so its producers have no more on the way than it reads at once. What is missing is *not run*, with the reason. The
exit code is 1 when the reference broker has less than a quarter of ActiveMQ's non-persistent rate or is not ahead of
CoilMQ.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from msgspec import Struct

from brokerproof.chaos.brokers.activemq import ActiveMQ
from brokerproof.chaos.brokers.beans import MEBIBYTE, ActiveMQOptions
from brokerproof.chaos.brokers.jars import obtain
from brokerproof.chaos.brokers.rabbitmq import RabbitMQ
from brokerproof.chaos.brokers.stomp import handshake
from brokerproof.chaos.ports import free_port
from brokerproof.chaos.processes import Process, Supervisor
from brokerproof.chaos.tools import ToolFailed, ToolMissing

SHARE_PERCENT_MIN = 25
WARM_S = 4.0
CASES = tuple(itertools.product((False, True), (1, 8)))
HERE = Path(__file__).parent
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Contender(Struct, eq=False):
    """A broker that runs: where it listens, and its process."""

    version: str
    port: int
    process: Process
    protocol: str = "stomp"
    stores: bool = True
    window: int = 200

    def processor_s(self) -> float:
        """Processor time of the process and of those below it."""
        total, waiting = 0.0, [self.process.pid]
        while waiting:
            pid = waiting.pop()
            try:
                fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
                tasks = list(Path(f"/proc/{pid}/task").iterdir())
            except OSError:
                continue  # it has ended
            total += (int(fields[11]) + int(fields[12])) * _TICK_S
            for task in tasks:
                with contextlib.suppress(OSError):  # a thread that ended meanwhile
                    waiting += map(int, task.joinpath("children").read_text(encoding="ascii").split())
        return total


class HotActiveMQ(ActiveMQ):
    """With the whole JIT compiler: tests start quicker without it, but who measures must not."""

    def _command(self) -> list[str]:
        return [word for word in super()._command() if word != "-XX:TieredStopAtLevel=1"]


def reference(supervisor: Supervisor, folder: Path) -> list[Contender]:
    """A process for each protocol."""
    return [_reference(supervisor, folder, protocol) for protocol in ("stomp", "openwire")]


def _reference(supervisor: Supervisor, folder: Path, protocol: str) -> Contender:
    port = free_port()
    words = [sys.executable, "-m", "brokerproof.reference_broker.server", "--data", folder / protocol]
    words += ["--connector", f"{'tcp' if protocol == 'openwire' else protocol}://127.0.0.1:{port}"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = supervisor.spawn(f"reference-{protocol}", words, cwd=folder, env=environment)
    process.await_ready(lambda: "listening" if "listening" in process.log_tail() else None)
    return Contender("brokerproof", port, process, protocol=protocol)


def activemq(supervisor: Supervisor, folder: Path) -> list[Contender]:
    options = ActiveMQOptions(store="kahadb", heap_mebibytes=512, store_limit_bytes=4096 * MEBIBYTE)
    broker = HotActiveMQ(supervisor, obtain(), folder, options=options, management=False)
    broker.start()
    return [
        Contender(broker.server, broker.stomp_port, broker.process),
        Contender(broker.server, broker.openwire_port, broker.process, protocol="openwire"),
    ]


def rabbitmq(supervisor: Supervisor, folder: Path) -> list[Contender]:
    broker = RabbitMQ(supervisor, folder)
    broker.start()
    return [Contender(broker.server, broker.stomp_port, broker.process)]


def coilmq(supervisor: Supervisor, folder: Path) -> list[Contender]:
    if importlib.util.find_spec("coilmq") is None:
        raise ToolMissing("CoilMQ", "pip install 'brokerproof[benchmarks]'")
    port = free_port()
    start = "import sys; from coilmq.start import main; sys.exit(main())"
    process = supervisor.spawn("coilmq", [sys.executable, "-c", start, "-b", "127.0.0.1", "-p", str(port)], cwd=folder)
    # Its newest version is 1.1, and it does not say its name.
    process.await_ready(lambda: handshake(port, version="1.1"))
    return [Contender("CoilMQ", port, process, stores=False, window=6)]


BROKERS: dict[str, Callable[[Supervisor, Path], list[Contender]]] = {
    "reference": reference,
    "activemq": activemq,
    "rabbitmq": rabbitmq,
    "coilmq": coilmq,
}
_runs = itertools.count(1)


def load(contender: Contender, persistent: bool, connections: int, seconds: float, rate: float = 0) -> dict[str, float]:
    """One run of the generator, with the broker's processor time per message."""
    words = [sys.executable, str(HERE / "wire_load.py"), "--port", str(contender.port), "--run", str(next(_runs))]
    words += ["--connections", str(connections), "--seconds", str(seconds), "--rate", str(rate)]
    words += ["--window", str(contender.window), "--protocol", contender.protocol]
    before_s = contender.processor_s()
    done = subprocess.run(
        [*words, *(["--persistent"] if persistent else [])], capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"  {contender.version}: {done.stderr.strip()}")
        return {"messages": 0, "per_second": 0.0, "processor_us": 0.0}
    found: dict[str, float] = json.loads(done.stdout)
    used_s = contender.processor_s() - before_s
    found["processor_us"] = used_s * 1e6 / found["messages"] if found["messages"] else 0.0
    return found


def measure(brokers: dict[str, list[Contender]], rounds: int, seconds: float) -> dict[str, float]:
    """Print a table per case; the rates of the non-persistent ones by protocol, broker and connections."""
    rates: dict[str, float] = {}
    for contenders in brokers.values():
        for contender in contenders:
            for persistent in {False, contender.stores}:
                load(contender, persistent, 1, WARM_S)
    for protocol, (persistent, connections) in itertools.product(("stomp", "openwire"), CASES):
        entered = {
            name: one
            for name, contenders in brokers.items()
            for one in contenders
            if one.protocol == protocol and (one.stores or not persistent)
        }
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in entered}
        for _ in range(rounds):
            for name, contender in entered.items():
                runs[name].append(load(contender, persistent, connections, seconds))
        kept = "persistent" if persistent else "non-persistent"
        print(f"\n{protocol}, {kept}, {connections} producer(s) and consumer(s):")
        for name, contender in entered.items():
            rate = median(run["per_second"] for run in runs[name])
            processor_us = median(run["processor_us"] for run in runs[name])
            calm = load(contender, persistent, connections, seconds, rate / 2)
            late = "cannot keep half of it up" if not calm["messages"] else ""
            timed = late or f"at half of that p50 {calm['p50_ms']:.1f} ms, p99 {calm['p99_ms']:.1f} ms"
            print(f"  {name:10} {rate:8,.0f} messages/s, {processor_us:6.0f} us of processor each; {timed}", flush=True)
            if not persistent:
                rates[f"{protocol} {name} {connections}"] = rate
    return rates


def missed(rates: dict[str, float]) -> list[str]:
    """Where the reference broker is slower than it ought to be."""
    found = []
    for protocol, connections in itertools.product(("stomp", "openwire"), (1, 8)):
        case = f"over {protocol} with {connections} connection(s)"
        ours = rates.get(f"{protocol} reference {connections}")
        if ours is None:
            continue
        theirs = rates.get(f"{protocol} activemq {connections}")
        if theirs:
            print(f"{100 * ours / theirs:.0f} % of ActiveMQ {case}, non-persistent")
            if ours < theirs * SHARE_PERCENT_MIN / 100:
                found.append(f"less than {SHARE_PERCENT_MIN} % of ActiveMQ {case}")
        if ours <= rates.get(f"{protocol} coilmq {connections}", 0):
            found.append(f"not ahead of CoilMQ {case}")
    return found


def main() -> int:
    """Start all, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", nargs="+", choices=BROKERS, default=list(BROKERS))
    options = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, load {os.getloadavg()[0]:.1f}")
    brokers: dict[str, list[Contender]] = {}
    with tempfile.TemporaryDirectory(prefix="brokerproof-wire-") as folder, Supervisor(Path(folder)) as supervisor:
        for name in options.only:
            own = Path(folder) / name
            own.mkdir()
            try:
                brokers[name] = BROKERS[name](supervisor, own)
                print(f"{name}: {brokers[name][0].version}", flush=True)
            except (ToolMissing, ToolFailed) as error:
                print(f"{name}: not run: {error}")
        slow = missed(measure(brokers, options.rounds, options.seconds))
    for line in slow:
        print(f"missed: {line}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
