"""``brokerproof profile``: make a broker profile from a running broker, or prove one line by line."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from brokerproof.conformance.brokers import check_broker, make_adapter
from brokerproof.conformance.brokers.chosen import hidden
from brokerproof.conformance.brokers.line import NamesWrong
from brokerproof.conformance.brokers.profile import FORMAT
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.brokers.proving import prove
from brokerproof.conformance.experiment.exits import OK, VIOLATED, UsageError
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.worlds.live.laboratory import Laboratory
from brokerproof.conformance.worlds.live.proving import prove_by_agents

#: What stands in one instead of what probes found, where the broker refuses what they send.
_UNPROBED = [
    "# capabilities = []   # absent: found by probing",
    "",
    "[names.stomp]",
    'queue = "/queue/{name}"   # it refuses this name: say what its queues are called',
    'topic = "/topic/{name}"',
    'dead_letters = "/queue/ActiveMQ.DLQ"',
]
#: Lines that a first profile has commented out: the table, the line, and the capability that it gives.
_LINES = (
    ("start", 'command = ["mybroker", "--port", "{port.stomp}", "--data", "{data}", "{settings}"]', ""),
    ("start", "restart = true", "restart"),
    ("start", 'clock = "libfaketime"', ""),
    ("settings", 'timestamping = ["--timestamping", "{ttl_ceiling_ms}"]', "timestamping"),
    ("settings", 'memory_limit_bytes = ["--memory-limit", "{value}"]', "memory-limit"),
    ("settings", 'redelivery = ["--redeliveries", "{maximum},{initial_ms},{pause_ms}"]', "broker-redelivery"),
    ("counters", 'kind = "stomp-statistics"', "counters"),
    ("counters", 'at = "/queue/ActiveMQ.Statistics.Destination.{name}"', ""),
    (
        "counters",
        'map = { size = "size", in_flight = "inflightCount", memory_percent = "memoryPercentUsage" }',
        "memory-counters",
    ),
    ("promises", 'reject = "dead-letter"', "nack"),
    ("promises", "redeliveries_max = 5", "redelivery-limit"),
)


def main(argv: Sequence[str]) -> int:
    """``init URL`` writes a profile, ``check FILE`` proves one."""
    parser = argparse.ArgumentParser(prog="brokerproof profile", description=__doc__)
    parser.add_argument("verb", choices=["init", "check"], help="write a first profile, or prove each line of one")
    parser.add_argument(
        "broker", metavar="BROKER", help="init: the URL of a running broker (stomp://127.0.0.1:61613); check: FILE.toml"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="init: where it goes (default: standard output)")
    options = parser.parse_args(argv)
    if options.verb == "init":
        return _init(options.broker, options.out)
    if options.out is not None:
        raise UsageError(f"--out {options.out} is for init; check writes nothing")
    return _check(options.broker)


def _init(url: str, out: Path | None) -> int:
    if "://" not in url:
        raise UsageError(f"{url!r} is not a URL; give stomp://HOST:PORT of a running broker")
    if out is not None and out.exists():
        raise UsageError(f"{out} exists already; remove it, or give another --out")
    try:
        text = _written(url, _profiled(url))
    except NamesWrong as problem:
        sys.stderr.write(f"{problem}; nothing was probed: put that line right, then: brokerproof profile check FILE\n")
        text = _skeleton(url, "mybroker", "", _UNPROBED)
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
    return OK


def _profiled(broker: str) -> ProfileAdapter:
    check_broker(broker)
    adapter = make_adapter(broker)
    if not isinstance(adapter, ProfileAdapter):
        adapter.close()
        raise UsageError(f"{broker!r} is a class of ours, its file has no lines to prove; give another profile")
    return adapter


def _written(url: str, adapter: ProfileAdapter) -> str:
    offered = adapter.capabilities()
    _, _, version = adapter.label.partition(" ")
    greeting = re.match(r"[A-Za-z][\w.+-]*", adapter.found().server)
    name = greeting[0].lower() if greeting else adapter.located.profile.name
    words = ", ".join(f'"{word}"' for word in offered)
    found = [f"capabilities = [{words}]   # found by probing; its documentation may promise more"]
    if not adapter.found().marks:
        found += ["", "[names.stomp]", 'headers = { redelivered = "" }   # what comes again does not say so']
    return _skeleton(url, name, version.partition(" ")[2] or version, found)


def _skeleton(url: str, name: str, version: str, found: list[str]) -> str:
    lines = [
        f'format = "{FORMAT}"',
        f'name = "{name}"',
        f'version = "{version}"' if version else '# version = "1.0"',
        "",
        "[endpoints]",
        f'stomp = {{ url = "{hidden(url)}" }}   # with login = "…", passcode = "env:MY_SECRET" where it wants them',
        "",
        "[promises]",
        'profiles = ["core"]   # what it claims: "jms", "stomp-1.2", … (docs/profiles.md)',
        found[0],
        *(f"# {line}{_adds(capability)}" for head, line, capability in _LINES if head == "promises"),
        *found[1:],
    ]
    lines += ["", "# Everything below would add requirements; docs/profiles.md says what each line is."]
    table = ""
    for head, line, capability in _LINES:
        if head == "promises":
            continue
        if head != table:
            lines += ["", f"# [{head}]"]
            table = head
        lines.append(f"# {line}{_adds(capability)}")
    return "\n".join(lines) + "\n"


def _adds(capability: str) -> str:
    found = [one.id for one in default_catalogue().judged() if capability and capability in one.words()]
    if not found:
        return ""
    shown = ", ".join(found[:4]) + (", …" if len(found) > 4 else "")
    return f"   # adds {len(found)}: {shown}"


def _check(broker: str) -> int:
    with contextlib.ExitStack() as stack:
        adapter = stack.enter_context(contextlib.closing(_profiled(broker)))
        worst = OK
        laboratory = stack.enter_context(Laboratory())
        for proof in itertools.chain(prove(adapter), prove_by_agents(adapter, laboratory)):
            sys.stdout.write(f"{proof.state:<10}  {proof.line}: {proof.text}\n")
            sys.stdout.flush()
            worst = VIOLATED if proof.state == "wrong" else worst
    return worst
