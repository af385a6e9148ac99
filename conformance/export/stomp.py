"""A script as STOMP: a transcript of frames, and the two files that hold it, a pytest file and a stand-alone one."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

import msgspec

from brokerproof.conformance.agents.dialect import Dialect
from brokerproof.conformance.agents.stomp_library import StompLibrary
from brokerproof.conformance.brokers.translation import Names
from brokerproof.conformance.experiment import operations as ops
from brokerproof.conformance.experiment.destinations import Destinations
from brokerproof.conformance.experiment.wire_names import HEADERS, Saying
from brokerproof.conformance.export import expectations as expected
from brokerproof.conformance.export import player
from brokerproof.conformance.export.script import PATIENCE_MS, QUIET_MS, NotExpressible
from brokerproof.reference_broker.core.instant import Now
from brokerproof.reference_broker.inactivity import DocumentedMonitor
from brokerproof.reference_broker.session.notice import Delivered
from brokerproof.reference_broker.stomp.client import ClientSession
from brokerproof.reference_broker.stomp.frames import V12, Frame

if TYPE_CHECKING:
    from brokerproof.conformance.export.script import Act, Script
    from brokerproof.conformance.export.target import Target
    from brokerproof.conformance.export.told import Told

#: What a client's wall clock shows while frames are written; ``{now}`` takes its place.
_NOW_MS: Final = 10**15
RUN: Final = ".{run}"
#: What the lines of a transcript mean, from the player's header.
_LEGEND: Final = "".join(f"# {line}\n" for line in (player.__doc__ or "").strip().split("\n\n")[-1].splitlines())
ADDRESS: Final = "127.0.0.1:61613"


class _Peer:
    """One host's connection: its library writes the frames."""

    def __init__(self, host: str, durable: bool, target: Target) -> None:
        self.session = ClientSession(DocumentedMonitor(host, 0))
        at = target.profile.endpoints.stomp
        assert at is not None, "checked before"
        secret = at.passcode.startswith("env:")
        self.session.connect(
            client_id=f"{{run}}-{host}" if durable else "",
            versions=(V12,),
            host=at.host,
            login=at.login,
            passcode=f"{{env {at.passcode.removeprefix('env:')}}}" if secret else at.passcode,
        )
        self.library = StompLibrary(self.session)
        self.dialect = Dialect(target.profile.names.stomp)

    def frames(self) -> list[Frame]:
        """What it has written since the last time, in the broker's words."""
        found = [self.dialect.outgoing(frame) for frame in self.session.outbox if isinstance(frame, Frame)]
        self.session.outbox.clear()
        return found


def pytest_file(script: Script, told: Told) -> str:
    """A pytest file that needs pytest and nothing else. Raises ``NotExpressible``."""
    tests = [
        f"def test_{name.lower().replace('-', '_')}(run):\n{_assertions(found, told.target)}"
        for name, found in told.expected.items()
    ]
    fixture = (
        '@pytest.fixture(scope="module")\n'
        "def run():\n"
        f'    return Player(os.environ.get("BROKER", "{ADDRESS}")).play(TRANSCRIPT)\n'
    )
    head = _head(script, told, f"BROKER={ADDRESS} pytest THIS_FILE")
    return "\n\n".join([head.replace("import time\n", "import time\n\nimport pytest\n"), fixture, *tests])


def stomp_file(script: Script, told: Told) -> str:
    """A script that plays the transcript, prints what arrives and exits 1 if what was expected did not happen."""
    checks = "".join(_assertions(found, told.target) for found in told.expected.values())
    main = (
        'if __name__ == "__main__":\n'
        f'    run = Player(sys.argv[1] if len(sys.argv) > 1 else "{ADDRESS}").play(TRANSCRIPT)\n'
        "    for one in run.arrived:\n"
        '        print(one["token"], "arrived at", one["subscription"], one)\n'
        "    try:\n"
        "        check(run)\n"
        "    except AssertionError as error:\n"
        '        sys.exit(f"NOT SO: {error}")\n'
        '    print("all as it should be")\n'
    )
    head = _head(script, told, f"python3 THIS_FILE {ADDRESS}").replace("import socket\n", "import socket\nimport sys\n")
    return "\n\n".join([head, f"def check(run):\n{checks}", main])


def _head(script: Script, told: Told, command: str) -> str:
    """What it shows and how it is run, the transcript, and its player."""
    source = inspect.getsource(player).partition('"""\n')[2]  # without the module's header
    imports, _, classes = source.partition("\n\n\n")
    text = "\n".join([*told.lines(), "", f"Run it:  {command}", "", told.configuration(script)])
    return (
        f'r"""{text}\n"""\n\n{imports.strip()}\n\n'
        f"{_LEGEND}"
        f'TRANSCRIPT = r"""\n{transcript(script, told.target)}"""\n\n\n{classes.strip()}\n'
    )


def _assertions(found: list[expected.Expectation], target: Target) -> str:
    names = {word: target.profile.names.stomp.headers.get(word, HEADERS[word]) for word in HEADERS}
    headers = {"expires": names["expiration"], "timestamp": names["timestamp"]}
    again = Saying.of("redelivered", names["redelivered"] or HEADERS["redelivered"])
    return "".join(f"    assert {_check(one, headers, again)}, {one.sentence!r}\n" for one in found)


def transcript(script: Script, target: Target) -> str:
    """The text that ``player.py`` plays. Raises ``NotExpressible``."""
    at = target.profile.endpoints.stomp
    if at is None or V12 not in at.versions:
        raise NotExpressible(f"{target.label} speaks no STOMP {V12}, in which transcripts are written")
    for host in script.program.clients():
        if host.via != "stomp":
            raise NotExpressible(f"{script.name}: {host.name} is played over JMS, which is not STOMP; use --as junit")
        if host.version:
            raise NotExpressible(
                f"{script.name}: {host.name} offers STOMP {host.version} alone; transcripts offer {V12}"
            )
    for act in script.acts:
        if isinstance(act.operation, ops.Send):
            _check_words(act.operation, target, f"{script.name}: step {act.step} (send)")
    addresses = Names(Destinations(script.program.destinations), RUN)
    durables = {
        act.operation.host for act in script.acts if isinstance(act.operation, ops.Subscribe) and act.operation.durable
    }
    peers: dict[str, _Peer] = {}
    lines: list[str] = []
    step = 0
    for act in script.acts:
        if act.step != step:
            step = act.step
            lines += ["", f"# step {step}"]
        if act.connects:
            host = act.operation.host  # type: ignore[attr-defined]  # whoever connects is a client
            peers[host] = _Peer(host, host in durables, target)
            lines += [_frame_text(host, frame, 0) for frame in peers[host].frames()]
        lines += _act_lines(act, peers, addresses)
    return "\n".join(lines).strip() + "\n"


def _check_words(send: ops.Send, target: Target, where: str) -> None:
    asked = {"expiration": send.ttl_ms or send.endless, "delay": send.delay_ms, "group": send.group}
    for word, wanted in asked.items():
        if wanted and target.profile.names.stomp.headers.get(word) == "":
            raise NotExpressible(f"{where}: {target.label} has no header for {word}")


def _act_lines(act: Act, peers: dict[str, _Peer], addresses: Names) -> list[str]:
    match act.operation:
        case ops.Advance(ms=ms):
            return [f"... {ms}"]
        case ops.Settle():
            return [f"... {QUIET_MS}"]
        case ops.Take() as take:
            return [f"<<< {take.consumer} {max(take.deadline_ms, PATIENCE_MS) if act.message else take.deadline_ms}"]
        case ops.Leave(host=host, how=how, consumer=consumer):
            if how != "close":
                return [f"xxx {host}"]
            peer = peers[host]
            peer.library.detach(consumer) if consumer else peer.library.farewell()
            return [_frame_text(host, frame, 0) for frame in peer.frames()]
        case ops.ClientOperation() as asked:
            return _request_lines(act, asked, peers[asked.host], addresses)
    raise AssertionError(f"{act.operation} is no client's")


def _request_lines(act: Act, asked: ops.ClientOperation, peer: _Peer, addresses: Names) -> list[str]:
    library, now = peer.library, Now(0, _NOW_MS)
    if isinstance(asked, ops.Send | ops.Subscribe):
        asked = msgspec.structs.replace(asked, dest=addresses.physical(asked.dest))
    if isinstance(asked, ops.Ack | ops.Nack):
        for message in asked.messages:
            library.arrived(_delivered(asked.consumer, message), message, now)
            library.take(asked.consumer, now)
    library.ask(asked, now)
    return [_frame_text(asked.host, frame, act.skew_ms) for frame in peer.frames()]


def _delivered(consumer: str, message: str) -> Delivered:
    return Delivered(
        consumer,
        message,
        "",
        b"",
        expiration_ms=0,
        timestamp_ms=0,
        priority=4,
        persistent=True,
        redelivered=False,
        delivery_count=0,
        original_destination="",
        properties={},
        ack_id=f"{{ack {consumer} {message}}}",
    )


def _frame_text(host: str, frame: Frame, skew_ms: int) -> str:
    headers = [f"{name}:{_stamp(value, skew_ms)}" for name, value in frame.headers.items()]
    body = frame.body.decode()
    head, end, rest = body.partition("\n")
    body = head + end + (f"{{dots {len(rest)}}}" if rest else "")
    return "\n".join([f">>> {host}", frame.command, *headers, "", f"{body}^@"])


def _stamp(value: str, skew_ms: int) -> str:
    """A time of the client's clock: about the one that it had while frames were written."""
    if not value.isdecimal() or abs(int(value) - _NOW_MS) > _NOW_MS // 2:
        return value
    return f"{{now{int(value) - _NOW_MS + skew_ms:+d}}}"


def _says(message: str, header: Saying) -> str:
    """Whether a message (a Python expression) says that it comes again, as a condition."""
    if header.above is not None:
        return f"int({message}.get({header.header!r}, 0)) > {header.above}"
    return f"{message}.get({header.header!r}) == {header.yes!r}"


def _check(one: expected.Expectation, headers: dict[str, str], again: Saying) -> str:
    """An expectation as a Python condition over ``run``, a ``Player``."""
    match one:
        case expected.NotBefore(message=message, ms=ms):
            return f"run.after_ms({message!r}) >= {ms}"
        case expected.NotAfter(message=message, ms=ms):
            return f"run.after_ms({message!r}) <= {ms}"
        case expected.Kept(message=message, header=header):
            name = headers[header]
            return f'run.first({message!r}).get({name!r}, "0") == run.sent[{message!r}].get({name!r}, "0")'
        case expected.Life(message=message, ms=ms):
            stamps = [f"int(run.first({message!r}).get({headers[name]!r}, 0))" for name in ("expires", "timestamp")]
            return f"{' - '.join(stamps)} == {ms}"
        case expected.FirstUnmarked(message=message):
            return f"not {_says(f'run.first({message!r})', again)}"
        case expected.AgainMarked(message=message):
            taken = f'[one for one in run.taken if one["token"] == {message!r}][1:]'
            return f"{{{_says('one', again)} for one in {taken}}} == {{True}}"
        case expected.Takes(consumer=consumer, messages=messages, exactly=True):
            return f"run.tokens({consumer!r}) == {messages!r}"
        case expected.Takes(consumer=consumer, messages=messages):
            return f"set({messages!r}) <= set(run.tokens({consumer!r}))"
        case expected.Never(consumer=consumer, messages=messages):
            return f'not {{one["token"] for one in run.arrivals(consumer={consumer!r})}} & set({messages!r})'
        case expected.Times(message=message, times=times):
            return f'len([one for one in run.taken if one["token"] == {message!r}]) <= {times}'
        case expected.Refused(message=message):
            return f"{message!r} in run.refused"
    raise AssertionError(f"{one} has no condition")
