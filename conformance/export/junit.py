"""A script as a JUnit 4 test with ActiveMQ's own JMS client, on a broker that the test starts with its configuration.

Rules
* Every host is played by the stock client, with a session for each consumer. What that client does by itself (stamps by
  the machine's clock, no NACK, a goodbye at the end of each connection) cannot be otherwise, so it is refused.
* JMS messages are seen when the application takes them.
"""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Final

from brokerproof.conformance.brokers.translation import Names
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.destinations import Destinations
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.export import expectations as expected
from brokerproof.conformance.export.script import PATIENCE_MS, QUIET_MS, NotExpressible

if TYPE_CHECKING:
    from brokerproof.conformance.export.script import Act, Script
    from brokerproof.conformance.export.told import Told

_TEMPLATE: Final = "Reproducer.java.txt"
_ACKS: Final = {
    "auto": "Session.AUTO_ACKNOWLEDGE",
    "client": "Session.CLIENT_ACKNOWLEDGE",
    "individual": "org.apache.activemq.ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE",
}
#: The first release of the jakarta API.
_JAKARTA: Final = (6,)
_INDENT: Final = " " * 8


def junit_file(script: Script, told: Told) -> str:
    """The Java file; its class is ``class_name``. Raises ``NotExpressible``, and ``UsageError`` for other brokers."""
    target = told.target
    if not target.classic:
        raise UsageError(f"--as junit is for ActiveMQ Classic and its client, not {target.label}; use --as pytest")
    names = Names(Destinations(script.program.destinations), ".run")
    play: list[str] = []
    step = 0
    for act in script.acts:
        where = f"{script.name}: step {act.step}"
        if act.step != step:
            step = act.step
            play.append(f"// step {step}")
        if act.connects:
            play.append(f"connect({_text(act.operation.host)});")  # type: ignore[attr-defined]  # a client's
        if act.skew_ms and isinstance(act.operation, ops.Send):
            raise NotExpressible(
                f"{where} (send): the clock of {act.operation.host} is off by {act.skew_ms} ms, but a JVM has the "
                "machine's; use --as pytest"
            )
        play += _statements(act, names, where)
    checks = [
        f"assertTrue({_text(one.sentence)}, {_condition(one)});" for found in told.expected.values() for one in found
    ]
    about = [f" * {line}".rstrip() for line in told.lines()]
    text = resources.files(__package__).joinpath(_TEMPLATE).read_text(encoding="utf-8")
    parts = {
        "@JMS@": "jakarta.jms" if target.release >= _JAKARTA else "javax.jms",
        "@ABOUT@": "\n".join(about).replace("*/", "* /"),
        "@CLASS@": class_name(script.name),
        "@TEST@": "_".join(name.lower().replace("-", "") for name in told.expected),
        "@XML@": _indented(target.configuration(script.program, 0, 0).splitlines()),
        "@PLAY@": _indented(play),
        "@CHECK@": _indented(checks),
    }
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text


def class_name(program: str) -> str:
    """``live-delay-ttl`` -> ``ReplayLiveDelayTtlTest``: the file must be called so."""
    stem = program.rpartition("/")[2].removesuffix(".json")
    words = re.findall(r"[A-Za-z0-9]+", stem)
    return "Replay" + "".join(word.capitalize() for word in words) + "Test"


def _statements(act: Act, names: Names, where: str) -> list[str]:
    match act.operation:
        case ops.Advance(ms=ms):
            return [f"Thread.sleep({ms});"]
        case ops.Settle():
            return [f"Thread.sleep({QUIET_MS});"]
        case ops.Send() as send:
            return [_send(send, names, where)]
        case ops.Subscribe() as asked:
            return [_subscribe(asked, names)]
        case ops.Take(consumer=consumer, deadline_ms=deadline_ms):
            return [f"take({_text(consumer)}, {max(deadline_ms, PATIENCE_MS) if act.message else deadline_ms});"]
        case ops.Ack(consumer=consumer, messages=messages, tx=tx):
            if tx:
                raise NotExpressible(f"{where} (ack): it is part of a transaction, whose sessions only send here")
            return [f"acknowledge({_text(consumer)}, {_text(name)});" for name in messages]
        case ops.Leave(host=host, consumer=consumer, how="close"):
            return [f"leave({_text(consumer)});" if consumer else f"connections.remove({_text(host)}).close();"]
        case ops.Leave(how=how):
            raise NotExpressible(f"{where} (leave): how={how}, but the stock client says goodbye; use --as pytest")
        case ops.Unsubscribe(host=host, durable=durable):
            return [f"session({_text(host)}, false).unsubscribe({_text(durable)});"]
        case ops.Begin():
            return []
        case ops.Commit(host=host) | ops.Abort(host=host):
            end = "commit" if isinstance(act.operation, ops.Commit) else "rollback"
            return [f"session({_text(host)}, true).{end}();"]
    word = type(act.operation).__name__.lower()
    raise NotExpressible(f"{where} ({word}): the stock JMS client cannot do that; use --as pytest")


def _send(send: ops.Send, names: Names, where: str) -> str:
    strange = [name for name in ("endless", "forged") if getattr(send, name)]
    strange += [f"stamp={send.stamp}"] if send.stamp != "client" else []
    strange += [f"ttl_ms={send.ttl_ms}"] if send.ttl_ms < 0 else []
    if strange:
        raise NotExpressible(f"{where} (send): {', '.join(strange)} is STOMP's alone; use --as pytest")
    if send.headers:
        raise NotExpressible(f"{where} (send): headers {send.headers} are not written as Java; use --as pytest")
    properties = {"kind": send.kind, "JMSXGroupID": send.group}
    pairs = [_text(word) for name, value in properties.items() if value for word in (name, value)]
    values = [
        _text(send.host),
        _bool(bool(send.tx)),
        _text(names.physical(send.dest)),
        _text(send.message),
        *(str(number) for number in (send.size, send.delay_ms, send.ttl_ms, send.priority)),
        _bool(send.persistent),
        f"Map.of({', '.join(pairs)})",
    ]
    return f"send({', '.join(values)});"


def _subscribe(asked: ops.Subscribe, names: Names) -> str:
    options = {
        "prefetchSize": None if asked.prefetch is None else str(asked.prefetch),
        "dispatchAsync": "false" if asked.dispatch == "sync" else None,
        "exclusive": "true" if asked.exclusive else None,
        "priority": str(asked.priority) if asked.priority else None,
    }
    query = "&".join(f"consumer.{name}={value}" for name, value in options.items() if value is not None)
    values = [
        _text(asked.host),
        _text(asked.consumer),
        _text(names.physical(asked.dest) + (f"?{query}" if query else "")),
        _ACKS[asked.ack],
        _text(asked.selector) if asked.selector else "null",
        _text(asked.durable) if asked.durable else "null",
        _bool(asked.no_local),
    ]
    return f"subscribe({', '.join(values)});"


def _condition(one: expected.Expectation) -> str:
    """An expectation as a Java condition."""
    name = _text(getattr(one, "message", ""))
    match one:
        case expected.NotBefore(ms=ms):
            return f"afterMs({name}) >= {ms}"
        case expected.NotAfter(ms=ms):
            return f"afterMs({name}) <= {ms}"
        case expected.Kept(header=header):
            get = {"expires": "getJMSExpiration()", "timestamp": "getJMSTimestamp()"}[header]
            return f"first({name}) != null && first({name}).{get} == sent.get({name}).{get}"
        case expected.Life(ms=ms):
            first = f"first({name})"
            return f"{first} != null && {first}.getJMSExpiration() - {first}.getJMSTimestamp() == {ms}"
        case expected.FirstUnmarked():
            return f"taken({name}).stream().limit(1).noneMatch(Taken::redelivered)"
        case expected.AgainMarked():
            return f"taken({name}).size() > 1 && taken({name}).stream().skip(1).allMatch(Taken::redelivered)"
        case expected.Takes(consumer=consumer, messages=messages, exactly=exactly):
            return f"tokens({_text(consumer)}).{'equals' if exactly else 'containsAll'}({_list(messages)})"
        case expected.Never(consumer=consumer, messages=messages):
            return f"Collections.disjoint({_list(messages)}, tokens({_text(consumer)}))"
        case expected.Times(times=times):
            return f"taken({name}).size() <= {times}"
        case expected.Refused():
            return f"refused.contains({name})"
    raise AssertionError(f"{one} has no condition")


def _list(names: list[str]) -> str:
    return f"List.<String>of({', '.join(map(_text, names))})"


def _text(text: str | None) -> str:
    """A Java literal: JSON's escapes are Java's."""
    return json.dumps(text)


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _indented(lines: list[str]) -> str:
    return "\n".join(_INDENT + line for line in lines)
