"""Finding out what a STOMP broker can do, by doing it: the capabilities of a broker that nobody here started.

Each probe is a question whose answer is visible in frames alone. What a broker does not do is not its failure: the
requirements that need it are *not applicable*.

Rules
* Every probe has a destination of its own and a short deadline. A broker that is slower than that counts as not
  offering the feature, never as violating it.
* Nothing is taken from the broker's name or greeting.

Known exceptions: durability, memory limits and figures cannot be seen over STOMP, so they are never offered here. A
probe leaves an empty queue behind.
"""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from brokerproof.chaos.clocks import ClockReading, reading
from brokerproof.conformance.agents.dialect import Dialect
from brokerproof.conformance.brokers.line import ABSENT_MS, ANSWER_MS, Line, NameRefused, ProbeError, ProbeLine
from brokerproof.conformance.brokers.selector_forms import FORMS
from brokerproof.conformance.experiment.destinations import own_dead_letters_of
from brokerproof.conformance.experiment.wire_names import LIFE
from brokerproof.reference_broker.stomp.frames import V10, V11, Frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from brokerproof.conformance.brokers.base import Access

#: The delay that is asked for; a broker that works in whole seconds may halve it.
DELAY_MS = 1500
_BEAT_MS = 1000
_EXPIRED = b" expired"
_DEAD_LETTERS = "/queue/ActiveMQ.DLQ"


class Found(Struct, eq=False):
    """What the probes found."""

    capabilities: list[str]
    #: The broker replaces the timestamp that a client sends, and the expiration as well.
    stamps: bool
    #: A message that comes again says so.
    marks: bool = True
    #: What it calls itself, the headings of reports want it.
    server: str = ""
    #: What was tried.
    asked: tuple[str, ...] = ()
    #: Forms of selectors that it refuses, names of ``selector_forms.FORMS``.
    refused: tuple[str, ...] = ()
    #: Versions before the newest that it takes from who offers no other.
    versions: tuple[str, ...] = ()
    #: The broker replaces the timestamp alone.
    dates: bool = False


def probe(access: Access) -> Found:
    """Ask everything at once, each on a connection of its own; about two seconds.

    Raises ``OSError`` when nothing listens, ``ProbeError`` when it is no STOMP.
    """
    run = f"bp{secrets.token_hex(4)}"
    with ProbeLine(access, f"{_BEAT_MS},{_BEAT_MS}") as line:
        server = line.greeting.get("server", "")
        _plain(line, f"/queue/plain{run}", access)
        monitored = "0" not in line.greeting.get("heart-beat", "0,0").replace(" ", "").split(",")
    letters: list[bytes] = []
    questions: dict[str, Callable[[Line, str], bool]] = {
        "ttl": _ttl,
        "broker-ttl": _life,
        "delay": _delay,
        "prefetch": _prefetch,
        "nack": partial(_nack, letters),
        "persistent": _persistent,
        "topics": _topics,
        "selectors": _selectors,
        "numeric-selectors": _numbers,
        "transactions": _transactions,
    }
    questions |= {"dates": dates, "expires": partial(dates, word="expires")}
    # They need several connections.
    longer: dict[str, Callable[[Access, str], bool]] = {
        "durables": _durables,
        "browsers": partial(_browsers, "client"),
        "auto-browsers": partial(_browsers, "auto"),
    }
    with ThreadPoolExecutor(len(questions) + len(longer) + 2) as pool:
        marked = pool.submit(_told, lambda: _marks(access, f"/queue/marks{run}"))
        older = pool.submit(taken_versions, access)
        told = {
            name: pool.submit(_told, partial(_asked, access, ask, f"{name}{run}")) for name, ask in questions.items()
        }
        told |= {name: pool.submit(_told, partial(ask, access, f"{name}{run}")) for name, ask in longer.items()}
    found = {name for name, answer in told.items() if answer.result()}
    found |= {"ttl"} if "broker-ttl" in found else set()
    # Whose browsers need not acknowledge what they see, but may.
    found = found - {"auto-browsers"} if "browsers" in found else found
    found |= {"browsers"} if "auto-browsers" in found else set()
    stamped, dated = {"dates", "expires"} <= found, {"dates", "expires"} & found == {"dates"}
    capabilities = [*(["monitor"] if monitored else []), *(found - {"dates", "expires"})]
    if "nack" in capabilities and _EXPIRED in letters:
        capabilities.append("dead-letter")
    # Whoever has no header for a life was not asked for one.
    lives = "broker-ttl" in found or (access.names is not None and bool(access.names.headers.get("life")))
    unasked = {"dates", "expires", "auto-browsers", *(() if lives else ("broker-ttl",))}
    asked = ("monitor", *(name for name in (*questions, *longer) if name not in unasked), "dead-letter")
    refused = refused_forms(access, f"form{run}") if "selectors" in found else ()
    return Found(sorted(capabilities), stamped, marked.result(), server, asked, refused, older.result(), dated)


def taken_versions(access: Access) -> tuple[str, ...]:
    """Versions before the newest that it takes from who offers no other."""

    def taken(version: str) -> bool:
        with ProbeLine(structs.replace(access, versions=(version,))) as line:
            return line.greeting.get("version", V10) == version

    return tuple(version for version in (V10, V11) if _told(partial(taken, version)))


def refused_forms(access: Access, name: str) -> tuple[str, ...]:
    """Of ``FORMS``, those that no consumer may have."""
    with ThreadPoolExecutor(len(FORMS)) as pool:
        told = {
            form: pool.submit(_told, partial(_asked, access, partial(_selected, text), name))
            for form, (_, text) in FORMS.items()
        }
        return tuple(form for form, answer in told.items() if not answer.result())


def _plain(line: Line, queue: str, access: Access) -> None:
    """A message for a plain queue and a consumer of it are not refused; whether they are answered is for the rules."""
    try:
        line.send(queue, "plain")
        line.subscribe(queue)
    except ProbeError as error:
        named = queue if access.names is None else Dialect(access.names).address(queue)
        raise NameRefused(f"a message for {named!r} is refused: {error}") from None


def _asked(access: Access, question: Callable[[Line, str], bool], name: str) -> bool:
    with ProbeLine(access) as line:
        return question(line, name)


def _told(question: Callable[[], bool]) -> bool:
    """A broker that refuses the question does not offer the answer."""
    try:
        return question()
    except (ProbeError, OSError):
        return False


def read_clock(access: Access) -> ClockReading | None:
    """The broker's wall clock: the stamp that it puts on a message without one. None if it puts none."""
    queue = f"/queue/clockbp{secrets.token_hex(4)}"
    try:
        with Line(access) as line:
            line.subscribe(queue)
            t0_ns, real0_ms = time.monotonic_ns(), time.time_ns() // 1_000_000
            line.send(queue, "clock")
            found = line.message(ANSWER_MS)
            stamp = "" if found is None else found.headers.get("timestamp", "")
            return reading(int(stamp), t0_ns, real0_ms) if stamp.isdigit() and int(stamp) else None
    except (ProbeError, OSError):
        return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _ttl(line: Line, name: str) -> bool:
    """An expired message is not delivered, and the one behind it is."""
    queue = f"/queue/{name}"
    line.send(queue, "dead", expires=str(_now_ms() - 60_000), timestamp=str(_now_ms() - 120_000))
    line.send(queue, "alive", expires=str(_now_ms() + 60_000), timestamp=str(_now_ms()))
    line.subscribe(queue)
    found = line.message(ANSWER_MS)
    return found is not None and found.body == b"alive" and line.message(ABSENT_MS) is None


def _life(line: Line, name: str) -> bool:
    """The same of a life that the broker counts."""
    queue = f"/queue/{name}"
    line.send(queue, "dead", **{LIFE: "1"})
    line.send(queue, "alive", **{LIFE: "60000"})
    line.message(ABSENT_MS)  # nobody consumes yet
    line.subscribe(queue)
    found = line.message(ANSWER_MS)
    return found is not None and found.body == b"alive" and line.message(ABSENT_MS) is None


def _delay(line: Line, name: str) -> bool:
    """A delayed message does not come at once, but comes."""
    queue = f"/queue/{name}"
    line.subscribe(queue)
    line.send(queue, "late", AMQ_SCHEDULED_DELAY=str(DELAY_MS))
    return line.message(ABSENT_MS) is None and line.message(DELAY_MS + ANSWER_MS) is not None


def _prefetch(line: Line, name: str) -> bool:
    """A window of one holds one message, and moves when that is settled."""
    queue = f"/queue/{name}"
    for number in range(3):
        line.send(queue, f"{number}")
    line.subscribe(queue, "client-individual", **{"activemq.prefetchSize": "1"})
    first = line.message(ANSWER_MS)
    if first is None or line.message(ABSENT_MS) is not None:
        return False
    line.ask("ACK", settlement(first))
    moved = line.message(ANSWER_MS) is not None
    line.ask("UNSUBSCRIBE", {"id": queue})
    line.subscribe(queue)
    while line.message(ABSENT_MS) is not None:
        pass
    return moved


def _nack(letters: list[bytes], line: Line, name: str) -> bool:
    """A rejected message goes to the dead letters at once and says where it came from. ``letters``: what else of ours
    is found there; a broker that buries what is rejected may throw away what has expired.
    """
    queue = f"/queue/{name}"
    expired = str(_now_ms() - 60_000)
    line.send(queue, f"{name}{_EXPIRED.decode()}", persistent="true", expires=expired, timestamp=expired)
    line.send(queue, name, persistent="true")
    line.subscribe(queue, "client-individual")
    found = line.message(ANSWER_MS)
    if found is None:
        return False
    line.ask("NACK", settlement(found))
    place = f"/queue/{own_dead_letters_of(name)}" if line.apart else _DEAD_LETTERS
    line.subscribe(place, "client-individual", **{"activemq.prefetchSize": "1000"})
    deadline_ns = time.monotonic_ns() + ANSWER_MS * 1_000_000
    while time.monotonic_ns() < deadline_ns:
        letter = line.message(ABSENT_MS)
        if letter is None or not letter.body.startswith(name.encode()):
            continue  # what others left there stays
        line.ask("ACK", settlement(letter))
        letters.append(letter.body.removeprefix(name.encode()))
        if letter.body == name.encode():
            return letter.headers.get("original-destination") == queue
    return False


def _persistent(line: Line, name: str) -> bool:
    """The wish to be kept is passed on."""
    queue = f"/queue/{name}"
    line.send(queue, "kept", persistent="true")
    line.subscribe(queue)
    found = line.message(ANSWER_MS)
    return found is not None and found.headers.get("persistent") == "true"


def _topics(line: Line, name: str) -> bool:
    """A topic reaches who is there, and nobody who comes later."""
    topic = f"/topic/{name}"
    line.send(topic, "early")
    line.subscribe(topic)
    line.send(topic, "now")
    found = line.message(ANSWER_MS)
    return found is not None and found.body == b"now" and line.message(ABSENT_MS) is None


def _selectors(line: Line, name: str) -> bool:
    """Only what matches is delivered."""
    queue = f"/queue/{name}"
    line.send(queue, "other", kind="a")
    line.send(queue, "wanted", kind="b")
    line.subscribe(queue, selector="kind = 'b'")
    found = line.message(ANSWER_MS)
    return found is not None and found.body == b"wanted" and line.message(ABSENT_MS) is None


def _numbers(line: Line, name: str) -> bool:
    """A header that says a number is one to selectors."""
    for number, (selector, wanted) in enumerate((("seat_no > 9", b"10"), ("seat_no = 9", b"9"))):
        queue = f"/queue/{name}n{number}"
        for seat in ("9", "10", "x"):
            line.send(queue, seat, seat_no=seat)
        line.subscribe(queue, selector=selector)
        found = line.message(ANSWER_MS)
        if found is None or found.body != wanted or line.message(ABSENT_MS) is not None:
            return False
    return True


def _selected(selector: str, line: Line, name: str) -> bool:
    """It is no nonsense to the broker."""
    line.subscribe(f"/queue/{name}", selector=selector)
    return True


def _transactions(line: Line, name: str) -> bool:
    """What is sent in a transaction comes with its commit, not before, and not after a rollback."""
    queue = f"/queue/{name}"
    line.subscribe(queue)
    line.ask("BEGIN", {"transaction": "1"})
    line.send(queue, "rolled back", transaction="1")
    line.ask("ABORT", {"transaction": "1"})
    line.ask("BEGIN", {"transaction": "2"})
    line.send(queue, "committed", transaction="2")
    if line.message(ABSENT_MS) is not None:
        return False
    line.ask("COMMIT", {"transaction": "2"})
    found = line.message(ANSWER_MS)
    return found is not None and found.body == b"committed"


def dates(line: Line, name: str, word: str = "timestamp") -> bool:
    """The client's timestamp, or expiration, is replaced."""
    sent_ms = _now_ms() - 3_600_000
    told = {"timestamp": str(sent_ms), "expires": str(sent_ms + 7_200_000)}
    line.subscribe(f"/queue/{name}")
    line.send(f"/queue/{name}", "stamped", **told)
    found = line.message(ANSWER_MS)
    return found is not None and found.headers.get(word) not in {None, told[word]}


def _marks(access: Access, queue: str) -> bool:
    """What a consumer leaves unsettled comes again, and says so."""
    with ProbeLine(access) as line:
        line.send(queue, "again")
        line.subscribe(queue, "client-individual")
        if line.message(ANSWER_MS) is None:
            return False
    with ProbeLine(access) as line:
        line.subscribe(queue)
        found = line.message(ANSWER_MS)
        return found is not None and found.headers.get("redelivered") == "true"


def _durables(access: Access, name: str) -> bool:
    """What a durable subscriber missed is there when it comes back."""
    topic, durable = f"/topic/{name}", {"activemq.subscriptionName": name}

    def come_back(wait_ms: int) -> Frame | None:
        with ProbeLine(access, client_id=name) as line:
            line.subscribe(topic, **durable)
            found = line.message(wait_ms)
            line.ask("DISCONNECT", {})
            return found

    if come_back(ABSENT_MS) is not None:
        return False
    with ProbeLine(access) as line:
        line.send(topic, "missed")
    found = come_back(ANSWER_MS)
    # Who has another way to end it need not take this one.
    with suppress(ProbeError, OSError), ProbeLine(access, client_id=name) as line:
        line.ask("UNSUBSCRIBE", {"id": name, **durable})
    return found is not None and found.body == b"missed"


def _browsers(ack: str, access: Access, name: str) -> bool:
    """A browser is shown what waits, is told that this was all, and takes nothing."""
    queue = f"/queue/{name}"
    with ProbeLine(access) as line:
        line.send(queue, "seen")
        line.subscribe(queue, ack, browser="true")
        shown, end = line.message(ANSWER_MS), line.message(ANSWER_MS)
    with ProbeLine(access) as line:
        line.subscribe(queue)
        taken = line.message(ANSWER_MS)
    bodies = [found is not None and found.body == b"seen" for found in (shown, taken)]
    return all(bodies) and end is not None and end.headers.get("browser") == "end"


def settlement(message: Frame) -> dict[str, str]:
    """The headers that an ACK or NACK of a message needs, in the words of whichever version."""
    headers = message.headers
    if "ack" in headers:
        return {"id": headers["ack"]}
    return {"message-id": headers.get("message-id", ""), "subscription": headers.get("subscription", "")}


_ASKED = (_ttl, _delay, _prefetch, _nack, _persistent, _topics, _selectors, _transactions, _durables, _browsers)
#: Capability -> what its probe looks for.
MEANT = {ask.__name__[1:]: (ask.__doc__ or "").partition(".")[0] for ask in _ASKED}
