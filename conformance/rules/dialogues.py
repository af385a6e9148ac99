"""What a raw peer hears when it speaks word by word (GEN-180 to GEN-185, GEN-190 to GEN-192, GEN-195;
``experiment/dialogues``).

Not judged: what a broker may have no room for, stamps where it restamps, what follows an offer that it refused, and
brokers whose operator decides who may do what, or about topics (MQSC).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.destinations import presence_of
from brokerproof.conformance.experiment.dialogues import (
    FATAL,
    HELLO,
    PATIENCE_NS,
    Dialogue,
    Turn,
    Wanted,
    dialogues,
    filled,
)
from brokerproof.conformance.experiment.policies import entry_for
from brokerproof.conformance.facts.managed import all_commands
from brokerproof.conformance.facts.spans import ms
from brokerproof.conformance.rules.raw_peers import AT_ONCE_NS
from brokerproof.conformance.rules.rule import Findings, broken, held, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from brokerproof.conformance.experiment.configuration import BrokerSpec
    from brokerproof.conformance.experiment.history import Probe
    from brokerproof.conformance.experiment.peers import Reply
    from brokerproof.conformance.facts.facts import Facts

#: Below this a broker's limits may leave no room for a few small messages.
ROOM_BYTES = 32 * 1024 * 1024
#: Where dialogues get messages from: a name, whether it is a topic, whether it is temporary.
PLACES = (
    ("ID:raw", True, True),
    ("ID:raw", False, True),
    ("raw-peers", True, False),
    ("raw-answers", False, False),
    (presence_of("raw-peers", topic=True), True, False),
)
REFUSALS = (*FATAL, "ExceptionResponse")
SHOWN = 200
ID = "message-id:"
VERSION = "version:"
V10 = "1.0"


class Utterance:
    """A turn that was said, and how it ended."""

    def __init__(self, event: Probe, place: int, dialogue: Dialogue, late_ns: int) -> None:
        spoken, later = event.heard.turns[place], event.heard.turns[place + 1 :]
        self.event = event
        self.spoken = spoken
        self.dialogue = dialogue
        self.turn: Turn = dialogue.turns[spoken.turn]
        self.late_ns = late_ns
        #: The broker hung up after it.
        self.ended_ns = None if later else event.heard.ended_ns
        #: So long it was listened to.
        self.next_ns = later[0].at[0] if later else event.t1

    @property
    def refuses(self) -> bool:
        """Whether it is one that must be refused."""
        return any(text.partition("\n")[0] in REFUSALS for text in self.turn.hears)


def _utterances(facts: Facts) -> list[Utterance]:
    if not facts.probes or any(
        command.kind in {"AUTHREC", "TOPIC"} and command.verb != "DISPLAY" for command in all_commands(facts)
    ):
        return []
    return [one for event in facts.probes for one in _of_probe(facts, event)]


def _of_probe(facts: Facts, event: Probe) -> Iterator[Utterance]:
    """What can be judged of one peer's: nothing after a message for which there may have been no room, because who
    waits for room is not listened to.
    """
    known, turns = dialogues(event.said.via), event.heard.turns
    late_ns = 0 if facts.simulated else 10**9
    refused = False
    for place, spoken in enumerate(turns):
        dialogue = known.get(spoken.dialogue)
        if dialogue is None or spoken.turn >= len(dialogue.turns) or not _has_room(facts, event, dialogue):
            return
        one = Utterance(event, place, dialogue, late_ns)
        spared = one.turn.offer and not facts.simulated  # our own broker offers all of it
        was_refused = spared and any(reply.what in REFUSALS for reply in spoken.replies)
        refused = was_refused or (refused and spoken.turn > 0)
        if not refused and _is_plain(facts.declared, dialogue):
            yield one


def _is_plain(declared: BrokerSpec, dialogue: Dialogue) -> bool:
    """Whether the broker does with a message what it does unless it is told otherwise."""
    delays = declared.delay_support and not declared.delay_max_ms and declared.generation.get("delay") != "ibm-mq"
    return (
        ("stamps" not in dialogue.needs or declared.timestamping is None)
        and ("delay" not in dialogue.needs or delays)
        and ("logins" not in dialogue.needs or declared.logins)
    )


def _has_room(facts: Facts, event: Probe, dialogue: Dialogue) -> bool:
    if "room" not in dialogue.needs:
        return True
    declared = facts.declared
    told = [one.limit_bytes or 0 for one in facts.operations if one.op == "limit" and one.t0 <= event.t1]
    limits = [declared.memory_limit_bytes, declared.store_limit_bytes, declared.temp_limit_bytes, *told]
    found = [entry_for(declared, name, topic=topic, temporary=temporary) for name, topic, temporary in PLACES]
    entries = [entry for entry in found if entry is not None]
    limits += [entry.memory_limit_bytes or 0 for entry in entries]
    pending = any(entry.pending_message_limit is not None for entry in entries)
    return not pending and all(limit == 0 or limit >= ROOM_BYTES for limit in limits)


def _of(via: str, *, classic: bool, refuses: bool) -> Callable[[Facts], list[Utterance]]:
    def rows(facts: Facts) -> list[Utterance]:
        return [
            one
            for one in facts.rows(_utterances)
            if one.event.said.via == via
            and one.dialogue.classic == classic
            and one.refuses == refuses
            and "logins" not in one.dialogue.needs
        ]

    return rows


def _fits(wanted: Wanted, reply: Reply) -> bool:
    for line in wanted.lines:
        start, open_, end = line.partition("*")
        if not any(one.startswith(start) and one.endswith(end) if open_ else one == line for one in reply.lines):
            return False
    without = wanted.without
    return (
        reply.what in wanted.what.split("|")
        and (wanted.body is None or wanted.body == reply.body)
        and not any(line.startswith(without) for line in reply.lines if without)
    )


def _said(one: Utterance) -> str:
    return f"in {one.dialogue.name!r} a peer said {filled(one.turn.says, one.spoken.words)[:SHOWN]!r}"


def _compared(one: Utterance, *, strict: bool) -> tuple[list[str], list[Reply]]:
    """What should have come and did not, and what came beside it. Not ``strict``: a broker may have headers of its own,
    and call a destination as it likes.
    """
    left, lacking = list(one.spoken.replies), []
    for text in one.turn.hears:
        wanted = Wanted(text, one.spoken.words)
        if not strict:
            wanted.without = ()
            wanted.lines = [f"{line[:12]}*" if line.startswith("destination:") else line for line in wanted.lines]
        found = next((reply for reply in left if _fits(wanted, reply)), None)
        if found is None:
            lacking.append(filled(text, one.spoken.words))
        else:
            left.remove(found)
    return lacking, left


def _otherwise(one: Utterance, lacking: list[str]) -> str:
    heard = [f"{reply.what} {reply.lines} {reply.body!r}"[:SHOWN] for reply in one.spoken.replies]
    return f"{_said(one)}; {lacking[0]!r} should have come; it heard {heard}"


def _answered(one: Utterance, good: str, bad: str) -> Findings:
    """What was heard is what had to be heard."""
    event, turn = one.event, one.turn
    lacking, left = _compared(one, strict=True)
    if lacking:
        late_ns = -PATIENCE_NS if len(one.spoken.replies) < len(turn.hears) else None
        yield broken(bad, event, why=_otherwise(one, lacking), slack_ns=late_ns)
        return
    if left:
        yield broken(bad, event, why=f"{_said(one)}; nobody had asked for {left[0].what} {left[0].lines}")
        return
    if one.refuses:
        yield held(good)  # what becomes of the connection then is another question
    elif turn.ends != (one.ended_ns is not None):
        at = "was never hung up on" if one.ended_ns is None else f"was hung up on at {ms(one.ended_ns)}"
        yield broken(bad, event, why=f"{_said(one)}, and {at}")
    else:
        yield held(good)


@rule("GEN-180", over=_of("stomp", classic=False, refuses=True))
def the_forbidden_is_refused(_facts: Facts, one: Utterance) -> Findings:
    """What is no frame of STOMP, or not in its place, is answered with an ERROR."""
    return _answered(one, "refused", "tolerated")


@rule("GEN-181", over=_of("stomp", classic=False, refuses=False))
def frames_are_answered(_facts: Facts, one: Utterance) -> Findings:
    """What a STOMP client says is answered as its version says, byte for byte."""
    return _answered(one, "answered", "otherwise")


@rule("GEN-182", over=_of("stomp", classic=True, refuses=True))
def nonsense_is_refused(_facts: Facts, one: Utterance) -> Findings:
    """A header of STOMP that asks for what does not exist is refused, not passed over."""
    return _answered(one, "refused", "passed-over")


@rule("GEN-183", over=_of("stomp", classic=True, refuses=False))
def conventions_are_kept(_facts: Facts, one: Utterance) -> Findings:
    """ActiveMQ's headers of STOMP mean what its documentation says, in both directions."""
    return _answered(one, "kept", "otherwise")


def over_openwire(facts: Facts) -> list[Utterance]:
    """What was said in OpenWire."""
    return [one for one in facts.rows(_utterances) if one.event.said.via == "openwire"]


@rule("GEN-184", over=over_openwire)
def commands_are_answered(_facts: Facts, one: Utterance) -> Findings:
    """What a JMS client says in OpenWire is answered as it relies on, structure by structure."""
    return _answered(one, "answered", "otherwise")


# -- what STOMP's specification leaves no choice of


def specified(facts: Facts, *, refuses: bool) -> list[Utterance]:
    """What was said in a version whose specification says itself what is heard, to a broker that speaks that version:
    a peer that asked for nothing else was welcomed in it.
    """
    spoken = [one for one in facts.rows(_utterances) if one.event.said.via == "stomp"]
    versions = {one.event.said.version for one in spoken if one.dialogue.name == HELLO and _welcomed(one)}
    return [
        one
        for one in spoken
        if one.refuses == refuses and one.event.said.version in versions & set(one.dialogue.specified)
    ]


def _welcomed(one: Utterance) -> bool:
    """Whether a hello in one version was answered in it; who tells none speaks 1.0."""
    versionless = one.event.said.version == V10 and any(
        reply.what == "CONNECTED" and not any(line.startswith(VERSION) for line in reply.lines)
        for reply in one.spoken.replies
    )
    return versionless or not _compared(one, strict=False)[0]


def _unwelcome(one: Utterance) -> Reply | None:
    """What was heard although it must not be heard any more."""
    wanted = [Wanted(text, one.spoken.words) for text in one.turn.never]
    return next((reply for reply in one.spoken.replies if any(_fits(each, reply) for each in wanted)), None)


def _unasked(one: Utterance, left: list[Reply]) -> Reply | None:
    """A receipt that no frame of its peer names."""
    receipts = [reply for reply in left if reply.what == "RECEIPT"]
    if not receipts:
        return None
    said = [(known, turn) for turn in one.event.heard.turns if (known := dialogues("stomp").get(turn.dialogue))]
    frames = [filled(known.turns[turn.turn].says, turn.words) for known, turn in said]
    asked = {line.partition(":")[2] for frame in frames for line in frame.splitlines() if line.startswith("receipt:")}
    return next((reply for reply in receipts if not asked & {line.partition(":")[2] for line in reply.lines}), None)


def _waited(one: Utterance) -> bool:
    """Whether its answers had the time that a peer waits for them."""
    return one.next_ns >= one.spoken.at[1] + PATIENCE_NS


@rule("GEN-190", over=partial(specified, refuses=True))
def what_the_specification_forbids(_facts: Facts, one: Utterance) -> Findings:
    """What the specification of STOMP forbids is refused, by an ERROR or by the end of the connection."""
    replies = [reply.what for reply in one.spoken.replies]
    if "ERROR" in replies or (one.ended_ns is not None and not replies):
        yield held("refused")
    elif replies:
        yield broken("tolerated", one.event, why=f"{_said(one)}, and heard {replies}")
    elif _waited(one):
        yield broken("tolerated", one.event, why=f"{_said(one)}, and heard nothing", slack_ns=-PATIENCE_NS)


@rule("GEN-191", over=partial(specified, refuses=False))
def what_the_specification_promises(_facts: Facts, one: Utterance) -> Findings:
    """A frame is answered as the specification of STOMP says; an ERROR counts where nobody may refuse."""
    replies, (lacking, left) = one.spoken.replies, _compared(one, strict=False)
    if one.turn.tidies:
        return
    if (unwelcome := _unwelcome(one)) is not None:
        why = f"{_said(one)}; it heard {unwelcome.what} {unwelcome.lines} {unwelcome.body!r}, which must not come"
        yield broken("otherwise", one.event, why=why)
        return
    if any(reply.what == "ERROR" for reply in replies):
        if one.turn.owed:
            yield broken("otherwise", one.event, why=f"{_otherwise(one, lacking)}, and nobody may refuse it")
        return
    if not lacking and (unasked := _unasked(one, left)) is not None:
        yield broken("otherwise", one.event, why=f"{_said(one)}; nobody had asked for {unasked.what} {unasked.lines}")
        return
    if not lacking:
        yield held("answered")
        return
    why = _otherwise(one, lacking)
    if len(replies) >= len(one.turn.hears):
        yield broken("otherwise", one.event, why=why)
    elif one.ended_ns is not None:
        yield broken("otherwise", one.event, why=f"{why}, and was hung up on")
    elif _waited(one):
        yield broken("otherwise", one.event, why=why, slack_ns=-PATIENCE_NS)


def after_errors(facts: Facts) -> list[Utterance]:
    """What was answered with an ERROR in the only version that says what follows."""
    spoken = [one for one in facts.rows(_utterances) if one.event.said.version == "1.2"]
    return [one for one in spoken if any(reply.what == "ERROR" for reply in one.spoken.replies)]


@rule("GEN-185", over=after_errors)
def errors_are_the_end(_facts: Facts, one: Utterance) -> Findings:
    """After an ERROR a STOMP 1.2 connection is closed."""
    if one.ended_ns is not None:
        yield held("closed")
    elif one.event.t1 > one.spoken.replies[-1].at_ns + AT_ONCE_NS + one.late_ns:
        yield broken("kept", one.event, why=f"in {one.dialogue.name!r} a peer heard an ERROR, and was not hung up on")


def as_nobody(facts: Facts) -> list[Utterance]:
    """Hellos with a wrong login or passcode, or without."""
    return [one for one in facts.rows(_utterances) if "logins" in one.dialogue.needs]


@rule("GEN-195", over=as_nobody)
def only_who_is_known_comes_in(_facts: Facts, one: Utterance) -> Findings:
    """Who names no login, a wrong one, or not its passcode, is not let in."""
    replies = [reply.what for reply in one.spoken.replies]
    if "CONNECTED" in replies:
        yield broken("let-in", one.event, why=f"{_said(one)}, and was welcomed")
    elif "ERROR" in replies or one.ended_ns is not None:
        yield held("refused")


def told_ids(facts: Facts) -> list[tuple[Probe, dict[str, set[str]]]]:
    """Peers that were given messages with different bodies over STOMP: message-id -> bodies. Of the same body twice
    nobody knows whether it is one message that came again.
    """
    found: list[tuple[Probe, dict[str, set[str]]]] = []
    for event in facts.probes:
        bodies: dict[str, set[str]] = {}
        given = [reply for turn in event.heard.turns for reply in turn.replies if reply.what == "MESSAGE"]
        for reply in given:
            if (line := next((one for one in reply.lines if one.startswith(ID)), None)) is not None:
                bodies.setdefault(line, set()).add(reply.body)
        if len(set[str]().union(*bodies.values())) > 1:
            found.append((event, bodies))
    return found


@rule("GEN-192", over=told_ids)
def ids_name_one_message(_facts: Facts, row: tuple[Probe, dict[str, set[str]]]) -> Findings:
    """Two messages that a STOMP peer is given never have the same message-id."""
    event, bodies = row
    for line, found in bodies.items():
        if len(found) > 1:
            yield broken("same-id", event, why=f"{line!r} is on messages with the bodies {sorted(found)!r}"[:SHOWN])
            return
    yield held("told-apart")
