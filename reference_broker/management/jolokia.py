"""Jolokia's protocol: requests in JSON, answers in JSON, of the beans of one broker. No sockets, no clock of its own.

* Types: ``version``, ``read`` (one attribute, several, all; by pattern, too), ``search``, ``list``, ``exec`` and
  ``write``. A list of requests is answered by a list, in order; each may fail alone.
* What cannot be a request at all (no type, no name, an ambiguous operation) is ``Malformed``: the whole exchange is
  answered with 400, as Jolokia does. Everything else that fails is an answer with ``status`` and ``error_type``, in
  Java's words, because probers tell "no such bean" from "no such attribute" by them.
* A pattern leaves out attributes that a bean lacks, and beans that lack all of them; without a pattern they are errors,
  or, with ``ignoreErrors``, stand where the value would.
* An operation that the core carries out may be answered late; later requests of the same exchange wait for it.
* Long work is done in pieces: an exchange is a generator that lets others run whenever it gives None.

Known exceptions: ``notification`` is not offered, and of the processing parameters only ``ignoreErrors``;
``purge`` needs no parentheses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Final

from brokerproof.reference_broker.core.events import Operation
from brokerproof.reference_broker.management.bean import Bean, BeanOperation, Json, OperationRefused
from brokerproof.reference_broker.management.browsing import INVALID_SELECTOR
from brokerproof.reference_broker.management.object_names import BadNameError, ObjectNamePattern
from brokerproof.reference_broker.session.actions import Answered

if TYPE_CHECKING:
    from brokerproof.reference_broker.management.bean_registry import BeanRegistry

PROTOCOL: Final = "8.0"
#: Requests in one exchange, and beans in one answer with values.
MOST_REQUESTS: Final = 1000
MOST_BEANS: Final = 5000
#: Beans after which others may run.
PIECE: Final = 50
_MS_PER_S: Final = 1000

NO_BEAN: Final = "javax.management.InstanceNotFoundException"
NO_ATTRIBUTE: Final = "javax.management.AttributeNotFoundException"
NO_OPERATION: Final = "java.lang.NoSuchMethodException"
BAD_ARGUMENT: Final = "java.lang.IllegalArgumentException"
_REFUSALS: Final = {
    "bad-selector": INVALID_SELECTOR,
    "unknown-destination": "javax.jms.InvalidDestinationException",
    "bad-destination": "javax.jms.InvalidDestinationException",
}
_OTHER_REFUSAL: Final = "javax.jms.JMSException"

#: Gives None to let others run, or an operation, and gets back what became of it; returns what is to be said.
Work = Generator[Operation | None, Answered | None, Json]
#: Hands an operation to the broker; the second gets the answer, at once or later.
Submit = Callable[[Operation, Callable[[Answered], None]], None]


class Malformed(Exception):
    """The *prober* sent something that is no request. The text is the whole answer."""


class Jolokia:
    """Answers exchanges about one broker."""

    def __init__(self, registry: BeanRegistry, submit: Submit, defer: Callable[[Callable[[], None]], None]) -> None:
        """``defer`` calls something after everything else that waits to run."""
        self._registry = registry
        self._view = registry.view
        self._submit = submit
        self._defer = defer

    def ask(self, body: bytes, reply: Callable[[Json], None]) -> None:
        """One exchange. ``reply`` gets what is to be said in JSON, or ``Malformed``."""
        try:
            requests = json.loads(body)
        except (ValueError, RecursionError) as error:
            reply(failure("java.lang.IllegalStateException", f"Bad JSON: {error}", 500))
            return
        work = self._exchange(requests)
        self._go_on(work, None, reply)

    def _go_on(self, work: Work, answer: Answered | None, reply: Callable[[Json], None]) -> None:
        """Let an exchange run to its next rest."""
        try:
            operation = work.send(answer)
        except StopIteration as end:
            reply(end.value)
        except Malformed as error:
            reply(error)
        else:
            if operation is None:
                self._defer(lambda: self._go_on(work, None, reply))
            else:
                self._submit(operation, lambda given: self._go_on(work, given, reply))

    def _exchange(self, requests: Json) -> Work:
        if isinstance(requests, dict):
            return (yield from self._one(requests))
        if not isinstance(requests, list) or len(requests) > MOST_REQUESTS:
            raise Malformed(f"send one request, or a list of at most {MOST_REQUESTS}")
        for request in requests:
            _check(request)
        answers = []
        for request in requests:
            answers.append((yield from self._one(request)))
            yield None
        return answers

    def _one(self, request: Json) -> Work:
        _check(request)
        request = {**request, "type": request["type"].lower()}
        shown = {name: request[name] for name in _SHOWN[request["type"]] if name in request}
        try:
            asked = self._asked(request, shown)
            value = yield from _HANDLERS[request["type"]](self, request, asked)
        except OperationRefused as refusal:
            return {"request": shown, **failure(refusal.kind, refusal.text, refusal.status)}
        seconds = self._view.clocks().wall_ms // _MS_PER_S
        return {"request": shown, "value": value, "status": 200, "timestamp": seconds}

    def _asked(self, request: Mapping[str, Json], shown: dict[str, Json]) -> ObjectNamePattern | None:
        if request["type"] in {"version", "list"}:
            return None
        asked = _named(str(request.get("mbean", "")))
        shown["mbean"] = asked.text
        if request["type"] == "read" and "attribute" not in shown:
            shown["attribute"] = []
        return asked

    # -- the types

    def _version(self, _request: Mapping[str, Json], _asked: ObjectNamePattern | None) -> Work:
        version = self._view.version
        yield from ()
        return {
            "agent": version,
            "protocol": PROTOCOL,
            "config": {"agentContext": "/jolokia", "maxObjects": str(MOST_BEANS)},
            "info": {"product": "brokerproof", "vendor": "brokerproof", "version": version},
        }

    def _search(self, _request: Mapping[str, Json], asked: ObjectNamePattern | None) -> Work:
        assert asked is not None
        found = []
        for count, bean in enumerate(self._registry.all(), 1):
            if asked.matches(bean.name):
                found.append(str(bean.name))
            if not count % PIECE:
                yield None
        return found

    def _list(self, request: Mapping[str, Json], _asked: ObjectNamePattern | None) -> Work:
        path = [part for part in _path(request.get("path")) if part]
        domains: dict[str, dict[str, Json]] = {}
        wanted = _named(":".join(path[:2])) if len(path) > 1 else None
        described: dict[str, Json] = {}
        for count, bean in enumerate(self._registry.all(), 1):
            if wanted is None or wanted.matches(bean.name):
                name = bean.kind.class_name
                if name not in described:
                    described[name] = _described(bean)
                domains.setdefault(bean.name.domain, {})[bean.name.key_list()] = described[name]
            if not count % PIECE:
                yield None
        if not path:
            return domains
        inside = domains.get(path[0], {})
        if len(path) == 1:
            return inside
        if not inside:
            raise OperationRefused(NO_BEAN, ":".join(path[:2]), 404)
        return _descend(next(iter(inside.values()), {}), path[2:])

    def _read(self, request: Mapping[str, Json], asked: ObjectNamePattern | None) -> Work:
        assert asked is not None
        wanted = _wanted(request)
        if asked.is_pattern:
            value = yield from self._read_all(asked, wanted)
        else:
            bean = self._bean(asked)
            if isinstance(request.get("attribute"), str):
                value = self._value(bean, request["attribute"])
            else:
                read = self._value_or_error if _ignores_errors(request) else self._value
                value = {name: read(bean, name) for name in wanted or bean.kind.attributes}
        return _descend(value, _path(request.get("path")))

    def _read_all(self, asked: ObjectNamePattern, wanted: list[str] | None) -> Work:
        values: dict[str, Json] = {}
        matched = False
        for count, bean in enumerate(self._registry.all(), 1):
            if asked.matches(bean.name):
                matched = True
                present = [name for name in wanted or bean.kind.attributes if name in bean.kind.attributes]
                if present:
                    values[str(bean.name)] = {name: self._value(bean, name) for name in present}
            if len(values) > MOST_BEANS:
                raise OperationRefused(
                    BAD_ARGUMENT, f"{asked.text} matches more than {MOST_BEANS} beans; narrow it", 400
                )
            if not count % PIECE:
                yield None
        if matched and not values:
            raise OperationRefused(
                NO_ATTRIBUTE, f"No attribute found for any MBean matching {asked.text}: {wanted}", 404
            )
        if not values:
            raise OperationRefused(NO_BEAN, f"No MBean with pattern {asked.text} found for READ request", 404)
        return values

    def _exec(self, request: Mapping[str, Json], asked: ObjectNamePattern | None) -> Work:
        assert asked is not None
        if not request.get("operation"):
            raise Malformed('an exec needs an operation, as in {"operation": "purge()"}')
        bean = self._bean(asked)
        given = [] if request.get("arguments") is None else request["arguments"]
        action = _action(bean, str(request["operation"]), given)
        try:
            outcome = action.perform(self._view, bean.subject, given)
        except (ValueError, TypeError, OverflowError) as error:
            raise OperationRefused(BAD_ARGUMENT, str(error), 400) from None
        if not isinstance(outcome, Operation):
            return outcome
        answer = yield outcome
        assert answer is not None
        if answer.code and not (action.lenient and answer.code == "unknown-destination"):
            raise _refusal(answer)
        return action.result(answer.count)

    def _write(self, request: Mapping[str, Json], asked: ObjectNamePattern | None) -> Work:
        assert asked is not None
        if not request.get("attribute") or "value" not in request:
            raise Malformed('a write needs an attribute and a value, as in {"attribute": "MemoryLimit", "value": 0}')
        bean = self._bean(asked)
        name = str(request["attribute"])
        attribute = bean.kind.attributes.get(name)
        if attribute is None or attribute.write is None:
            raise OperationRefused(NO_ATTRIBUTE, f"Can't write attribute: {name}", 404)
        before = attribute.read(self._view, bean.subject)
        try:
            operation = attribute.write(self._view, bean.subject, request.get("value"))
        except ValueError as error:
            raise OperationRefused(BAD_ARGUMENT, str(error), 400) from None
        answer = yield operation
        assert answer is not None
        if answer.code:
            raise _refusal(answer)
        return before

    def _bean(self, asked: ObjectNamePattern) -> Bean:
        bean = None if asked.is_pattern else self._registry.find(asked)
        if bean is None:
            raise OperationRefused(NO_BEAN, asked.text, 404)
        return bean

    def _value(self, bean: Bean, name: str) -> Json:
        attribute = bean.kind.attributes.get(name)
        if attribute is None:
            raise OperationRefused(NO_ATTRIBUTE, f"No such attribute: {name}", 404)
        return attribute.read(self._view, bean.subject)

    def _value_or_error(self, bean: Bean, name: str) -> Json:
        try:
            return self._value(bean, name)
        except OperationRefused as refusal:
            return {"error_type": refusal.kind, "error": refusal.text}


_HANDLERS: Final[dict[str, Callable[[Jolokia, Mapping[str, Json], ObjectNamePattern | None], Work]]] = {
    "version": Jolokia._version,
    "search": Jolokia._search,
    "list": Jolokia._list,
    "read": Jolokia._read,
    "exec": Jolokia._exec,
    "write": Jolokia._write,
}
#: What an answer repeats of its request.
_SHOWN: Final = {
    "version": ("type",),
    "search": ("mbean", "type"),
    "list": ("path", "type"),
    "read": ("path", "mbean", "attribute", "type"),
    "exec": ("mbean", "arguments", "type", "operation"),
    "write": ("mbean", "attribute", "type", "value"),
}


def _check(request: Json) -> None:
    """Raises ``Malformed`` unless it has a type that we know."""
    if not isinstance(request, dict) or "type" not in request:
        raise Malformed(f'No type given; one of {", ".join(_HANDLERS)}, as in {{"type": "version"}}')
    if not isinstance(request["type"], str) or request["type"].lower() not in _HANDLERS:
        raise Malformed(f"No type with name {request['type']!r} exists; one of {', '.join(_HANDLERS)}")


def _named(text: str) -> ObjectNamePattern:
    """Raises ``Malformed``."""
    try:
        return ObjectNamePattern(text)
    except BadNameError as error:
        raise Malformed(str(error)) from None


def failure(kind: str, text: str, status: int) -> dict[str, Json]:
    """An answer that says what went wrong."""
    return {"error_type": kind, "error": text, "status": status}


def _refusal(answer: Answered) -> OperationRefused:
    return OperationRefused(_REFUSALS.get(answer.code, _OTHER_REFUSAL), f"{answer.code}: {answer.text}")


def _ignores_errors(request: Mapping[str, Json]) -> bool:
    """Whether the prober wants what there is, and an error in the place of the rest."""
    config = request.get("config")
    return isinstance(config, dict) and str(config.get("ignoreErrors")).lower() == "true"


def _wanted(request: Mapping[str, Json]) -> list[str] | None:
    """The names of the attributes; None: all."""
    wanted = request.get("attribute")
    if isinstance(wanted, str):
        return [wanted]
    if wanted in (None, []):
        return None
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise Malformed(f"attribute = {wanted!r} is neither a name nor a list of names")
    return wanted


def _path(given: Json) -> list[str]:
    """The parts of an inner path; ``!/`` is a slash inside a part."""
    if not given:
        return []
    return [part.replace("\0", "/") for part in str(given).replace("!/", "\0").split("/")]


def _descend(value: Json, path: list[str]) -> Json:
    for part in path:
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, TypeError, ValueError):
            raise OperationRefused(BAD_ARGUMENT, f"the path ends at {part!r}: there is no such element", 400) from None
    return value


def _action(bean: Bean, asked: str, given: Json) -> BeanOperation:
    """The operation that a prober means, by name, or by name and signature if there are several."""
    if not isinstance(given, list):
        raise Malformed(f"arguments = {given!r} must be a list")
    name, bracket, rest = asked.partition("(")
    actions = bean.kind.actions.get(name)
    if actions is None:
        raise OperationRefused(NO_OPERATION, asked)
    if not bracket and len(actions) > 1:
        signatures = " ".join(f"({','.join(action.arguments)})" for action in actions)
        raise Malformed(
            f"Operation {name} on MBean {bean.name} is overloaded. Signatures found: {signatures}. "
            "Use a signature when specifying the operation."
        )
    wanted = rest.removesuffix(")").replace(" ", "")
    for action in actions:
        if not bracket or ",".join(action.arguments) == wanted:
            if len(given) != len(action.arguments):
                raise Malformed(
                    f"Invalid number of operation arguments. Operation {asked} on {bean.name} requires "
                    f"{len(action.arguments)} parameters, not {len(given)} as given"
                )
            return action
    raise OperationRefused(NO_OPERATION, asked)


def _arguments(action: BeanOperation) -> Json:
    return [{"name": f"p{index}", "type": kind} for index, kind in enumerate(action.arguments)]


def _described(bean: Bean) -> Json:
    kind = bean.kind
    actions: dict[str, Json] = {}
    for name, signatures in kind.actions.items():
        shown = [{"args": _arguments(one), "ret": one.returns} for one in signatures]
        actions[name] = shown[0] if len(shown) == 1 else shown
    attributes = {
        name: {"type": one.type, "r": True, "w": one.write is not None, "rw": one.write is not None}
        for name, one in kind.attributes.items()
    }
    return {"class": kind.class_name, "attr": attributes, "op": actions}
