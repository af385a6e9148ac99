"""Each line of a profile proven by doing what it says.

Rules: a line is proven, wrong (with what was seen instead), or not proven, because nothing that can be seen from
outside tells. Only a wrong one is the file's fault. What was started is stopped.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from brokerproof.chaos.processes import NotReady, ProcessDiedAtStart
from brokerproof.chaos.rates import REAL, Rate, rate_of
from brokerproof.chaos.tools import ToolFailed, ToolMissing
from brokerproof.conformance.agents.kinds import STOMP
from brokerproof.conformance.brokers.line import ANSWER_MS, Line, ProbeError
from brokerproof.conformance.brokers.probing import MEANT, dates, read_clock, settlement
from brokerproof.conformance.brokers.profile import Profile, Promises
from brokerproof.conformance.brokers.promising import said
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec, TimeStampingSpec
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.wire_names import DEFAULTS, HEADERS
from brokerproof.reference_broker.core.message import QUEUE

if TYPE_CHECKING:
    from brokerproof.chaos.clocks import ClockReading
    from brokerproof.conformance.brokers.counters import Figures
    from brokerproof.conformance.brokers.launching import Launcher
    from brokerproof.conformance.brokers.profiled import ProfileAdapter
    from brokerproof.conformance.brokers.servers import Server

SKEW_MS = 300_000
#: How far from it a skewed clock may be, and how long a counter may take.
NEAR_MS = 2000
#: How far apart two readings of a fast clock are.
_APART_S = 1.0
_LATE_MS = 50
MOVED_S = 6.0
#: How long after a broker serves messages its figures may come.
SERVED_S = 20.0
_COUNT = 3
#: What figures may be while a consumer has acknowledged one of these messages, and holds one more, or all.
_HELD = {
    "size": [_COUNT - 1],
    "in_flight": range(1, _COUNT),
    "enqueued": [_COUNT],
    "dequeued": [1],
    "dispatched": range(2, _COUNT + 1),
    "consumers": [1],
}
#: Up to how many messages a promised window is counted, and how long one waits for what is not to come.
_MANY, _ABSENT_MS = 200, 500
#: A client's heart-beats while it is watched being silent.
_BEAT_MS = 500
#: How long a process may need to end, when it answers no more.
_ENDING_MS = 1000
_UNTOLD, _STILL = "the broker does not tell", "did not move"
#: What makes a profile's line doubtful, not its broker.
_SUSPECT = (_UNTOLD, _STILL)


#: What runs alone can show.
_PROMISED = ("expired", "redeliveries_max", "prefetch", "delay_clock", "delay_begins", "generation")
_UNSEEN = {
    *("priority", "group", "exclusive", "no_local", "consumer_priority", "dispatch_async", "delivery_count"),
    "original_destination",
}
#: Names that no question uses.
_UNUSED = ("identifiers", "wildcards", "nack", "unsubscribe")

_NO_CLOCK = (
    "the broker stamps no messages, so its clock cannot be read, and what asks for its clock is not run; "
    "it might write its own time into the header `timestamp` of what comes without one"
)
_UNREADABLE = 'only over STOMP can the clock of a broker be read, and there is no endpoints.stomp; say clock = "none"'


class Proof(NamedTuple):
    """What came of one line."""

    line: str
    state: Literal["ok", "wrong", "not proven"]
    text: str


def prove(adapter: ProfileAdapter) -> Iterator[Proof]:
    """Every line that the profile has, in the order of the file. Raises what a broker that does not start raises."""
    profile = adapter.located.profile
    questions: list[tuple[str, Callable[[ProfileAdapter], Proof]]] = [
        ("endpoints.stomp", _answers),
        ("names.stomp.headers", _marks),
    ]
    if profile.endpoints.stomp is None:
        if profile.start is not None and profile.start.clock != "none":
            yield Proof("start.clock", "not proven", _UNREADABLE)
        return
    if profile.start is not None and profile.start.clock != "none":
        questions.append(("start.clock", _clock))
    if profile.start is not None and profile.start.speed > 1:
        questions.append(("start.speed", _speed))
    if profile.restarts:
        questions.append(("start.restart", _restart))
    if not isinstance(profile.settings, str) and "timestamping" in profile.settings:
        questions.append(("settings.timestamping", _stamping))
    if profile.counters is not None:
        questions.append(("counters.map", _counters))
    if profile.promises.capabilities is not None:
        questions.append(("promises.capabilities", _claims))
    questions += _of_words(profile)
    if profile.promises.heart_beat_grace is not None:
        questions.append(("promises.heart_beat_grace", _gives_up))
    for line, question in questions:
        try:
            yield question(adapter)
        except (OSError, ProbeError, NotReady, ProcessDiedAtStart, ToolMissing, ToolFailed) as error:
            yield Proof(line, "wrong", str(error))
    if lines := _untried(profile):
        yield Proof("the rest", "not proven", f"nothing here tries {', '.join(lines)}; runs judge what they promise")


def _of_words(profile: Profile) -> list[tuple[str, Callable[[ProfileAdapter], Proof]]]:
    """Questions about single words that a file says, and does not leave to their defaults."""
    headers, promises = profile.names.stomp.headers, profile.promises
    asked: list[tuple[str, Callable[[ProfileAdapter], Proof]]] = []
    if headers.get("priority") and "priorities" in (promises.capabilities or []):
        asked.append(("names.stomp.headers.priority", _priority))
    if headers.get("delivery_count"):
        asked.append(("names.stomp.headers.delivery_count", _delivery_count))
    if isinstance(promises.prefetch, int) and promises.prefetch <= _MANY:
        asked.append(("promises.prefetch", _window))
    return asked


def _untried(profile: Profile) -> list[str]:
    """Lines of the file that promise something and that no question is about."""
    promises, names, plain = profile.promises, profile.names.stomp, Promises()
    tried = [line.rpartition(".")[2] for line, _ in _of_words(profile)]
    unseen = _UNSEEN.difference(tried)
    fields = [name for name in _PROMISED if name not in tried and getattr(promises, name) != getattr(plain, name)]
    settings = () if isinstance(profile.settings, str) else profile.settings
    silent = _tells_nothing_of_letters(promises)
    named = [*_UNUSED, *(["dead_letters"] if silent else [])]
    return [
        *(f"names.stomp.{name}" for name in named if getattr(names, name) != getattr(DEFAULTS[STOMP], name)),
        *(f"names.stomp.headers.{word}" for word in names.headers if word in unseen and names.headers[word]),
        *(f"settings.{word}" for word in settings if word != "timestamping"),
        *(f"operations.{word}" for word in profile.operations.words()),
        *(["promises.reject"] if promises.reject in {"redeliver", "drop"} else []),
        *(f"promises.{name}" for name in fields),
    ]


def _tells_nothing_of_letters(promises: Promises) -> bool:
    """The probe of dead letters rejects one message and lets another expire: it needs both to become one."""
    return promises.reject in {"redeliver", "drop"} or promises.expired == "elsewhere"


class _Running:
    """A broker of the profile's for one question. A context manager."""

    def __init__(
        self, adapter: ProfileAdapter, spec: BrokerSpec | None = None, offset_ms: int = 0, rate: Rate = REAL
    ) -> None:
        self._adapter = adapter
        self._spec = spec or BrokerSpec()
        self._offset_ms = offset_ms
        self._rate = rate
        self.server: Server | None = None

    def __enter__(self) -> _Running:
        if self._adapter.located.profile.start is not None:
            self.server = self._adapter.server(self._spec, ClockSpec(self._offset_ms), alone=True, rate=self._rate)
        self.access = self._adapter.access(STOMP, self.server)
        return self

    def clock(self) -> ClockReading | None:
        """The broker's wall clock."""
        access = self._adapter.over_stomp(self.server)
        return None if access is None else read_clock(access)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self.server is None:
            return
        process = self.server.launcher.process
        # What dies closes its sockets first.
        code = process.wait(_ENDING_MS) if isinstance(error, OSError | ProbeError) else None
        log = process.log_tail()
        self._adapter.servers.give_back(self.server, spoilt=True)
        if code is not None:
            raise ProbeError(f"the broker ended by itself, exit code {code}; end of its log:\n{log.strip()}") from error


def _marks(adapter: ProfileAdapter) -> Proof:
    if adapter.found().marks:
        return Proof("names.stomp.headers", "ok", "what comes again says that it does")
    said = adapter.located.profile.names.stomp.headers.get("redelivered")
    text = 'what comes again does not say so: headers = { redelivered = "" }, or the name of the header'
    if said == "":
        return Proof("names.stomp.headers", "ok", "no header marks what comes again")
    return Proof("names.stomp.headers", "wrong", text)


def _priority(adapter: ProfileAdapter) -> Proof:
    """Of two waiting messages the later one has the higher priority."""
    name, queue = "names.stomp.headers.priority", _a_queue()
    with _Running(adapter) as running, Line(running.access) as line:
        line.send(queue, "low", priority="1")
        line.send(queue, "high", priority="8")
        line.subscribe(queue)
        came = [found.body.decode() for _ in range(2) if (found := line.message(ANSWER_MS)) is not None]
    if came == ["high", "low"]:
        return Proof(name, "ok", "of two waiting messages the one of higher priority comes first")
    return Proof(name, "wrong", f"of a message of priority 1 and a later one of 8 came {' and '.join(came) or 'none'}")


def _delivery_count(adapter: ProfileAdapter) -> Proof:
    """A message whose consumer is lost comes again."""
    name, queue = "names.stomp.headers.delivery_count", _a_queue()
    with _Running(adapter) as running:
        with Line(running.access) as line:
            line.send(queue, "again")
            line.subscribe(queue, "client-individual")
            first = line.message(ANSWER_MS)
        with Line(running.access) as line:
            line.subscribe(queue)
            second = line.message(ANSWER_MS)
    if first is None or second is None:
        return Proof(name, "not proven", f"it came {'once' if first else 'never'}, so it could not be counted")
    told, again = (message.headers.get(HEADERS["delivery_count"], "") for message in (first, second))
    text = f"a first delivery says {told or 'nothing'}, the second {again or 'nothing'}"
    if told not in {"", "0"}:
        word = adapter.located.profile.names.stomp.headers["delivery_count"]
        return Proof(name, "wrong", f'{text}; a count that begins at 1 is delivery_count = "{word} - 1"')
    if again.isdecimal() and int(again) > int(told if told.isdecimal() else 0):
        return Proof(name, "ok", text)
    if "losses-count" in (adapter.located.profile.promises.capabilities or []):
        return Proof(name, "wrong", text)
    return Proof(name, "not proven", f"{text}; a lost connection may not count there")


def _window(adapter: ProfileAdapter) -> Proof:
    """A consumer that asks for none, and settles nothing."""
    name, queue = "promises.prefetch", _a_queue()
    most = adapter.default_prefetch or 0
    with _Running(adapter) as running:
        with Line(running.access) as line:
            for number in range(most + 2):
                line.send(queue, f"{number}")
            line.subscribe(queue, "client-individual")
            came = 0
            while came < most + 2 and line.message(ANSWER_MS if came < most else _ABSENT_MS) is not None:
                came += 1
        with Line(running.access) as line:
            _empty(line, queue, _ABSENT_MS)
    text = f"of {most + 2} messages a consumer that asks for no window, and settles none, gets {came}"
    return Proof(name, "ok" if came == most else "wrong", text)


def _empty(line: Line, place: str, wait_ms: int) -> None:
    """Take what a question leaves on a broker that may not be ours."""
    line.subscribe(place)
    while line.message(wait_ms) is not None:
        pass


def _a_queue() -> str:
    return f"/queue/bp{secrets.token_hex(4)}"


def _answers(adapter: ProfileAdapter) -> Proof:
    found, asked = adapter.found(), _asked(adapter)
    if adapter.located.profile.promises.capabilities is None:
        for capability, line in said(adapter.located.profile).items():
            if capability in asked and capability not in found.capabilities:
                return Proof(line, "wrong", f"it promises {capability}, and a probe says that it does not")
    return Proof("endpoints.stomp", "ok", f"it answers; found: {', '.join(found.capabilities) or 'nothing'}")


def _clock(adapter: ProfileAdapter) -> Proof:
    with _Running(adapter, offset_ms=SKEW_MS) as running:
        read = running.clock()
    if read is None:
        return Proof("start.clock", "not proven", _NO_CLOCK)
    low, high = read.skew_bounds_ms()
    state: Literal["ok", "wrong"] = "ok" if low - NEAR_MS <= SKEW_MS <= high + NEAR_MS else "wrong"
    return Proof("start.clock", state, f"asked for {SKEW_MS} ms, its clock shows {low} to {high} ms")


def _speed(adapter: ProfileAdapter) -> Proof:
    rate = rate_of(adapter.speed_max)
    with _Running(adapter, rate=rate) as running:
        first = running.clock()
        time.sleep(_APART_S)
        second = running.clock()
    if first is None or second is None:
        return Proof("start.speed", "not proven", _NO_CLOCK)
    shown_ms, most_ms = second.wall_ms - first.wall_ms, (second.t1_ns - first.t0_ns) / 1e6
    least_ms = (second.t0_ns - first.t1_ns) / 1e6
    low_ms, high_ms = (ms * rate.times for ms in (least_ms - _LATE_MS, most_ms + _LATE_MS))
    text = (
        f"its clock went on by {shown_ms} ms in {least_ms:.0f} to {most_ms:.0f} ms; asked for {rate.times} times that"
    )
    return Proof("start.speed", "ok" if low_ms <= shown_ms <= high_ms else "wrong", text)


def _restart(adapter: ProfileAdapter) -> Proof:
    queue = _a_queue()
    with _Running(adapter) as running:
        assert running.server is not None, "only what is started can be restarted"
        with Line(running.access) as line:
            line.send(queue, "kept", persistent="true")
        ended = begun_again(adapter, running.server.launcher)
        with Line(running.access) as line:
            line.subscribe(queue)
            found = line.message(ANSWER_MS)
    kept = found is not None and found.body == b"kept"
    text = f"a persistent message is {'there' if kept else 'gone'} after a {ended}"
    return Proof("start.restart", "ok" if kept else "wrong", text)


def begun_again(adapter: ProfileAdapter, launcher: Launcher) -> str:
    """Have a broker end as ``start.restart`` says that it may, and start it: how it ended, "stop" or "kill"."""
    how = "stop" if adapter.located.profile.restarts == "stop" else "kill"
    launcher.restart(how)
    return how


def _stamping(adapter: ProfileAdapter) -> Proof:
    with _Running(adapter, BrokerSpec(timestamping=TimeStampingSpec())) as running, Line(running.access) as line:
        missed = [word for word in ("timestamp", "expires") if not dates(line, f"bp{secrets.token_hex(4)}", word)]
    text = f"a client's {' and '.join(missed)} is not replaced" if missed else "a client's timestamp is replaced"
    return Proof("settings.timestamping", "wrong" if missed else "ok", text)


def _counters(adapter: ProfileAdapter, *, held: bool = True) -> Proof:
    name = f"bp{secrets.token_hex(4)}"
    place = f"/queue/{name}"
    with _Running(adapter) as running, Line(running.access) as line:
        figures = adapter.figures(running.server)
        assert figures is not None, "it is asked only where there are counters"
        with contextlib.closing(figures):
            proof = counted(figures, QUEUE + name, lambda number: line.send(place, f"{number}"))
            if held and proof.state == "ok":
                with Line(running.access) as holder:
                    proof = _counted_while_held(figures, QUEUE + name, holder, place) or _whole(figures) or proof
        _empty(line, place, 100)
    return proof


def _whole(figures: Figures) -> Proof | None:
    """What is wrong with the figures of the broker as a whole; None: nothing, or they are not promised."""
    words = figures.broker.map if figures.broker is not None else {}
    told = figures.counters(None) or {}
    missing = [word for word in words if word not in told]
    return Proof("counters.broker", "wrong", f"they are {told}: {', '.join(missing)} {_UNTOLD}") if missing else None


def counted(figures: Figures, queue: str, send: Callable[[int], None]) -> Proof:
    """Whether the figures of a queue move by what is sent to it."""

    def all_came(told: dict[str, int]) -> bool:
        return told.get("size", told.get("enqueued")) == _COUNT

    for number in range(_COUNT):
        send(number)
    told = _moved(figures, queue, all_came)
    missing = [word for word in figures.map if word not in told]
    if missing:
        text = f"after {_COUNT} messages they are {told}: {', '.join(missing)} {_UNTOLD}"
        return Proof("counters.map", "wrong", text)
    still = [word for word in ("size", "enqueued") if told.get(word) == 0]
    why = f": {' and '.join(still)} {_STILL}" if still else ""
    return Proof("counters.map", "ok" if all_came(told) else "wrong", f"after {_COUNT} messages they are {told}{why}")


def _counted_while_held(figures: Figures, queue: str, line: Line, place: str) -> Proof | None:
    """What is wrong while a consumer has acknowledged one of the messages and holds at least one more. None: nothing,
    or nobody can tell, because no message came.
    """
    line.subscribe(place, "client-individual")
    first = line.message(ANSWER_MS)
    if first is None:
        return None
    line.ask("ACK", settlement(first))

    def wanted(told: dict[str, int]) -> list[str]:
        """What those should be that are something else."""
        missed = [word for word, figures in _HELD.items() if word in told and told[word] not in figures]
        return [f"{word} {' to '.join(map(str, sorted({_HELD[word][0], _HELD[word][-1]})))}" for word in missed]

    told = _moved(figures, queue, lambda told: not wanted(told))
    if not (missed := wanted(told)):
        return None
    text = f"of {_COUNT} messages a consumer has acknowledged one and holds others, and they are {told}"
    return Proof("counters.map", "wrong", f"{text} where they should be {', '.join(missed)}")


def _moved(figures: Figures, queue: str, done: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    """The figures of a queue as soon as they are so, or when they have had their time: a page may be served long after
    the messages (Artemis, on a busy machine).
    """
    return _awaited(figures, queue, done, MOVED_S) if _awaited(figures, queue, bool, SERVED_S) else {}


def _awaited(figures: Figures, queue: str, done: Callable[[dict[str, int]], bool], patience_s: float) -> dict[str, int]:
    deadline = time.monotonic() + patience_s
    while True:
        told = figures.counters(queue) or {}
        if done(told) or time.monotonic() > deadline:
            return told
        time.sleep(0.05)


def check_figures(adapter: ProfileAdapter) -> None:
    """Before the first run: figures are told, and move. What they must be is for the rules. Raises ``SuiteProblem``."""
    if adapter.located.profile.counters is None or adapter.located.profile.endpoints.stomp is None:
        return
    try:
        proof = _counters(adapter, held=False)
    except (OSError, ProbeError):
        return  # the runs will show
    if proof.state == "wrong" and proof.text.endswith(_SUSPECT):
        raise SuiteProblem(str(adapter.located.wrong(proof.line, proof.text)))


def _asked(adapter: ProfileAdapter) -> set[str]:
    """Which capabilities a probe knows."""
    found = adapter.found()
    silent = _tells_nothing_of_letters(adapter.located.profile.promises)
    return set(found.asked) - ({"dead-letter"} if silent else set[str]()).difference(found.capabilities)


def _claims(adapter: ProfileAdapter) -> Proof:
    profile, found = adapter.located.profile, adapter.found()
    claimed = profile.promises.capabilities or []
    # Where no header says that a message is persistent, a restart shows it.
    unasked = {"persistent"} if profile.restarts else set[str]()
    asked = _asked(adapter) - unasked.difference(found.capabilities)
    absent = [word for word in claimed if word in asked and word not in found.capabilities]
    if absent:
        told = [f"{word} ({MEANT[word]})" if word in MEANT else word for word in absent]
        return Proof("promises.capabilities", "wrong", f"{', '.join(told)}: a probe says that it does not")
    unknown = [word for word in claimed if word not in asked]
    text = f"no probe knows {', '.join(unknown)}" if unknown else "each was tried"
    return Proof("promises.capabilities", "not proven" if unknown else "ok", text)


def _gives_up(adapter: ProfileAdapter) -> Proof:
    """A client that promised heart-beats says nothing."""
    name, grace = "promises.heart_beat_grace", adapter.heart_beat_grace or 1
    with _Running(adapter) as running, Line(running.access, f"{_BEAT_MS},0") as line:
        began_ns = time.monotonic_ns()
        told = line.greeting.get("heart-beat", "0,0")
        asks = told.rpartition(",")[2].strip()
        if not asks.isdecimal() or not int(asks):
            return Proof(name, "wrong", f"the broker wants no heart-beats (heart-beat:{told}), so it gives nobody up")
        period_ms = max(_BEAT_MS, int(asks))
        least_ms, most_ms = int(grace * period_ms), int(3 * grace * period_ms) + adapter.lateness_ms
        ended = line.ended(most_ms)
    after_ms = (time.monotonic_ns() - began_ns) // 1_000_000
    due = f"due after {least_ms} to {most_ms} ms, {grace:g} to {3 * grace:g} periods"
    if not ended:
        return Proof(name, "wrong", f"a silent client is still connected; it was {due}")
    state: Literal["ok", "wrong"] = "ok" if after_ms >= least_ms - _LATE_MS else "wrong"
    return Proof(name, state, f"a silent client was given up after {after_ms} ms; {due}")
