"""Any broker with a profile (``profile.py``): started, reached, configured and asked as the file says.

Rules
* What the file does not say costs coverage: programs that need it are *not applicable*, with the line of the file that
  would switch them on.
* What it can do is what the file claims, else what probing finds, once; never what its name suggests.
* What is unknown about it is declared in the way that promises least: no sweep, no dead letters for volatile messages.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import replace

from brokerproof.chaos.clocks import reading
from brokerproof.chaos.processes import NotReady, ProcessDiedAtStart, Supervisor
from brokerproof.chaos.rates import REAL, Rate
from brokerproof.conformance.agents.kinds import AGENT, JMS, MQTT, OPENWIRE, STOMP
from brokerproof.conformance.agents.provider import Provider
from brokerproof.conformance.brokers import casting, fitting, promising
from brokerproof.conformance.brokers.addresses import AS_WRITTEN, players, way_in
from brokerproof.conformance.brokers.administration import administer
from brokerproof.conformance.brokers.base import Access, Adapter, Endpoint, NotApplicableError
from brokerproof.conformance.brokers.class_path import class_path
from brokerproof.conformance.brokers.counters import KINDS, Figures
from brokerproof.conformance.brokers.crowding import Crowd
from brokerproof.conformance.brokers.launching import CommandLauncher, Launcher, Place
from brokerproof.conformance.brokers.line import NameRefused, NamesWrong, ProbeError
from brokerproof.conformance.brokers.loading import class_of, settings_of
from brokerproof.conformance.brokers.operator import Operator, strange
from brokerproof.conformance.brokers.placeholders import filled
from brokerproof.conformance.brokers.probing import Found, probe, read_clock
from brokerproof.conformance.brokers.profile import Located
from brokerproof.conformance.brokers.selector_forms import Language
from brokerproof.conformance.brokers.servers import RUNNING, Server, Servers, side_by_side
from brokerproof.conformance.brokers.switches import BY_KIND, BY_SETTING, JMS_LINES, LINES
from brokerproof.conformance.brokers.version import version_of
from brokerproof.conformance.experiment.configuration import BrokerSpec, ClockSpec
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.operations import shared
from brokerproof.conformance.experiment.steps import Restart
from brokerproof.conformance.experiment.wire_names import API, WORDS, WireNames
from brokerproof.conformance.known import Known, load_known, parse_known
from brokerproof.reference_broker.core.config import ConfigError, resolve_generation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerproof.chaos.clocks import ClockFile, ClockReading, RatedClock
    from brokerproof.chaos.processes import Process
    from brokerproof.conformance.brokers.base import Laboratory, Operated
    from brokerproof.conformance.brokers.translation import Names
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.requirements.catalogue import Requirement


class ProfileEndpoint(Endpoint):
    """The broker while a run uses it. ``server`` None: it is not ours."""

    def __init__(self, adapter: ProfileAdapter, server: Server | None, *, crowded: bool) -> None:
        self._adapter = adapter
        self._server = server
        self.label = adapter.label
        self.clock_file = None if server is None else server.clock_file
        self._figures = adapter.figures(server)
        self._left = False
        self._operator: Operator | None = None
        self.place = "" if server is None else server.launcher.process.name
        self.crowded = crowded
        self.nack_ranges = True

    def port(self, via: str) -> int:
        return self.access(via).port

    def access(self, via: str) -> Access:
        return self._adapter.access(via, self._server)

    def library(self, via: str) -> str:
        return self._adapter.library(via)

    def words(self, via: str) -> Sequence[str]:
        return self._adapter.words(via)

    def counters(self, dest: str | None) -> dict[str, int] | None:
        # What others use, or have used, has figures of more than this run.
        own = self._server is not None and self._server.alone and self._server.runs == 1
        return None if self._figures is None or (dest is None and not own) else self._figures.counters(dest)

    def read_clock(self) -> ClockReading | None:
        access = self._adapter.over_stomp(self._server)
        if access is not None and (told := read_clock(access)) is not None:
            return told
        if self._server is None or not self._server.tells_real_time:
            return None
        return reading(time.time_ns() // 1_000_000, time.monotonic_ns(), time.time_ns() // 1_000_000)

    def declare(self, program: Program, names: Names) -> None:
        if self._adapter.located.profile.operator is not None:
            values = {"python": sys.executable, **self._adapter.values(self._server)}
            self._operator = Operator(self._adapter.located, values, program, names)

    def operate(self, op: str, dest: str, to: str, limit_bytes: int = 0) -> Operated | None:
        del limit_bytes
        if op == "mqsc":
            return None if self._operator is None else self._operator.tell(to)
        return administer(self._adapter.located, self._adapter.values(self._server), op, dest, to)

    def restart(self, how: str) -> dict[str, int] | None:
        start = self._adapter.located.profile.start
        if self._server is None or start is None or not start.restart:
            return None
        return self._server.launcher.restart(how)

    def process(self) -> Process | None:
        return None if self._server is None else self._server.launcher.process

    def stand_still(self, *, paused: bool) -> bool:
        process = self.process()
        if process is not None:
            (process.pause if paused else process.resume)()
        return process is not None

    def blamed(self, line: str, text: str) -> Exception:
        return self._adapter.located.wrong(line, text)

    def dispose(self, *, spoilt: bool = False) -> None:
        if self._operator is not None and not spoilt:
            self._operator.remove()
        self._operator = None
        if self._figures is not None:
            self._figures.close()
        if self._server is not None:
            self._adapter.servers.give_back(self._server, spoilt=spoilt)
        elif not self._left:
            self._adapter.crowd.leave()
        self._left = True


class ProfileAdapter(Adapter):
    """``located``: the profile. ``client``: the endpoint over which all hosts are played.

    Raises ``UsageError`` for what the file says wrongly.
    """

    def __init__(self, located: Located, client: str = AS_WRITTEN) -> None:
        self.located = located
        profile = located.profile
        self.name = profile.name
        #: Kind of host -> the agent that plays it here.
        self._plays = players(located, client)
        self._found: Found | None = None
        #: Of the JMS provider, once it was got.
        self._class_path = ""
        self._settings = settings_of(located)
        try:
            resolve_generation(profile.promises.generation)
        except ConfigError as error:
            raise located.wrong("promises.generation", str(error)) from None
        if profile.counters is not None:
            class_of(located, "counters.kind", profile.counters.kind, KINDS)
        start = profile.start
        skewed = start is not None and start.clock == "libfaketime"
        if start is not None and start.speed > 1 and not skewed:
            raise located.wrong("start.speed", 'its process lives faster by start.clock = "libfaketime" only; add that')
        self.separator, self.operations = profile.names.separator, profile.operated()
        self.lateness_ms = profile.tolerances.lateness_ms
        self.heart_beat_grace, self.delay_begins = profile.promises.heart_beat_grace, profile.promises.delay_begins
        self.speed = self.speed_max = 1 if start is None else start.speed
        # What expires may become a dead letter, whatever is promised of a rejection.
        dying = {"ttl", "broker-ttl"}.intersection(profile.promises.capabilities or ["ttl"])
        self._shares = (profile.promises.reject in {"redeliver", "drop"} and not dying) or profile.names.stomp.apart
        # What dies is collected for all: over STOMP.
        self.crowds = not self._shares and self.library(STOMP) == STOMP
        shared, lanes = self._shares or self.crowds, RUNNING if start is None else start.lanes
        if not self.pulls:
            self.default_prefetch = profile.promises.window()
        self.servers = Servers(profile.name, skewed=skewed, shared=shared, lanes=lanes)
        #: Of the one broker where none is started.
        self.crowd = Crowd()
        self.single = start is None
        alone = self.single and not self._shares and not self.crowds
        self.workers, self.lanes = side_by_side(lanes, alone=alone, pulls=self.pulls, crowds=self.crowds)
        over = "" if client == AS_WRITTEN else f"over {client}"
        self.label = " ".join(filter(None, (profile.name, version_of(located, self.found), over)))

    # -- who it is

    def known(self) -> Known:
        known = self.located.profile.known
        return load_known(self.label) if known is None else self._known_file(known.file)

    def _known_file(self, name: str) -> Known:
        path = self.located.here / name
        try:
            return parse_known(path.read_bytes(), str(path))
        except OSError as error:
            raise self.located.wrong("known.file", f"{path}: {error.strerror}; it stands beside the profile") from None

    # -- what it can

    @property
    def pulls(self) -> bool:
        """Whether its consumers ask for each message: what a JMS library has fetched ahead nobody sees."""
        return JMS in self._plays.values()

    def found(self) -> Found:
        """What the probes found; they are made once, on a broker of its own. Raises ``SuiteProblem``."""
        if self._found is None:
            server = self.first() if self.located.profile.start is not None else None
            access = self.over_stomp(server)
            if access is None:
                raise self.located.wrong("endpoints.stomp", "it is missing, so nothing can be found by probing")
            try:
                self._found = probe(access)
            except NameRefused as error:
                text = f'{error}; say what its queues are called, for example queue = "/queue/{{name}}"'
                raise NamesWrong(str(self.located.wrong("names.stomp.queue", text))) from None
            except (OSError, ProbeError) as error:
                where = f"stomp://{access.host}:{access.port}"
                remedy = error.remedy if isinstance(error, ProbeError) else "is it running?"
                text = f"{self.located.place}: endpoints.stomp: no STOMP broker answers at {where} ({error}); {remedy}"
                raise SuiteProblem(text) from None
            finally:
                if server is not None:
                    self.servers.give_back(server, spoilt=False)
        return self._found

    def first(self) -> Server:
        """The broker, started for the first time. Raises ``SuiteProblem`` if it does not serve."""
        try:
            return self.server(BrokerSpec(), ClockSpec(), alone=True)
        except (ProcessDiedAtStart, NotReady) as error:
            line = "start.command" if isinstance(error, ProcessDiedAtStart) else "start.ready"
            raise SuiteProblem(str(self.located.wrong(line, str(error)))) from None

    def capabilities(self) -> list[str]:
        profile = self.located.profile
        promises = profile.promises
        claimed = promises.capabilities
        words = {*self.found().capabilities, *promising.said(profile)} if claimed is None else set(claimed)
        if promises.reject not in {None, "dead-letter"}:
            words -= {"nack"} if "dead-letter" in (claimed or ()) else {"nack", "dead-letter"}  # of what expires
            words |= {"requeue"} if promises.reject == "redeliver" else set()
        if promises.prefetch == "ignored":
            words.discard("prefetch")
        if self.default_prefetch is not None and "prefetch" in words:
            words.add("default-prefetch")
        missing = self._unsaid()
        words -= {
            {"expiration": "ttl", "life": "broker-ttl", "selector": "selectors", "durable": "durables"}.get(word, word)
            for word in missing
        }
        jms = profile.endpoints.jms if self.pulls else None
        if jms is not None:
            words -= {"prefetch", "nack", *(("ttl",) if jms.expiry_check is None else ())}
            words |= {"pull", *(("expiry-check",) if jms.expiry_check else ())}
            if "delay" in words and {**WORDS[JMS], **self._names(JMS).headers}["delay"] == API:
                words.add("producers")
        words |= promising.implied(profile, words, self._plays.values(), self.found if self._is_probed() else None)
        if profile.counters is not None:
            words |= {"counters"} | ({"counts-when-assigned"} if promising.counts_early(promises) else set())
            if {"memory_percent", "memory_bytes"}.intersection(profile.counters.words().values()):
                words.add("memory-counters")
        words |= {"restart"} if profile.restarts else set()
        words |= {"operator"} if self.operations else set()
        if isinstance(promises.redeliveries_max, int):
            words.add("redelivery-limit")
        words |= {capability for word, capability in BY_SETTING.items() if word in self._settings}
        return sorted(words)

    def lines(self) -> dict[str, str]:
        return LINES | (JMS_LINES if self.pulls else {})

    def unpromised(self, requirement: Requirement) -> str:
        profile, found = self.located.profile, self.found() if self._is_probed() else None
        silent = promising.untold(profile, found, self._plays.values())
        return promising.unpromised(profile, requirement, marks=self._marks(), untold=silent)

    def unclaimed(self, requirement: Requirement) -> str:
        return promising.unclaimed(self.located.profile, requirement, set(self._plays.values()))

    def _marks(self) -> bool:
        """Whether a message that comes again says so."""
        header = self._names(STOMP).headers.get("redelivered") if STOMP in self._plays.values() else None
        return bool(header) if header is not None else not self.located.probed or self.found().marks

    def about(self) -> dict[str, str]:
        offered, promises = self.capabilities(), self.located.profile.promises
        words = {"offers": ", ".join(offered) or "nothing"}
        if promises.capabilities is None:
            asked = self.found().asked
            words["offers"] += f" (found by {len(asked)} probes)"
            words["lacks"] = ", ".join(word for word in asked if word not in offered) or "nothing that was probed"
        if refused := self.language().refused:
            words["selectors lack"] = ", ".join(refused)
        if promises.profiles is not None or promises.requirements:
            words["promises"] = ", ".join([*(promises.profiles or ()), *promises.requirements])
        return words

    # -- what is played on it

    def rate(self, program: Program) -> Rate:
        ours = {STOMP, OPENWIRE}.issuperset(self._plays.values())  # others read the clock themselves
        return super().rate(program) if ours else REAL

    def owns(self, program: Program) -> bool:
        return casting.owns(program, ours=not self.single) or self.rate(program).times > 1

    def fitted(self, program: Program, seed: int) -> Program:
        return fitting.fitted(program, seed, self.located.profile, self.capabilities(), self._settings)

    def cast(self, program: Program) -> Program:
        plays, letters = self._plays, self.located.profile.letters
        kind = next(iter(plays.values()))
        return casting.cast(
            program,
            [*self.capabilities(), *promising.beside(self.located.profile, self._unsaid(), jms=self.pulls)],
            list(plays),
            stamps=kind not in WORDS or bool({**WORDS[kind], **self._names(kind).headers}["expiration"]),
            queues=kind not in WORDS or bool(self._names(kind).queue),
            life_unit_ms=casting.SECOND_MS if kind == MQTT else 1,
            pulls=self.pulls,
            delay_clock=self.located.profile.promises.delay_clock,
            language=self.language(),
            versions=self._versions(program) if kind == STOMP else (),
            letters=letters if kind == STOMP else letters._replace(apart=False),
        )

    def _versions(self, program: Program) -> set[str]:
        """Of STOMP, those that a client may offer alone: the profile's, which may be the default, if it takes them."""
        at, asked = self.located.profile.endpoints.stomp, {host.version for host in program.hosts}
        return set() if at is None or asked == {""} else {*self.found().versions}.intersection(at.versions)

    def _is_probed(self) -> bool:
        """Whether it is asked for what its profile cannot say: whoever claims JMS has said it."""
        profile = self.located.profile
        return profile.endpoints.stomp is not None and not promising.is_jms(profile, jms=self.pulls)

    def language(self) -> Language:
        """What its selectors understand. Raises ``SuiteProblem``."""
        jms = promising.speaks_jms(self.located.profile, jms=self.pulls)
        named = {via: self._names(kind).identifiers for via, kind in self._plays.items() if kind in WORDS}
        probed = self._is_probed() and not jms and "selectors" in self.capabilities()
        return Language(jms, named, self.found().refused if probed else ())

    def library(self, via: str) -> str:
        return self._plays.get(via) or next(iter(self._plays.values()))

    def words(self, via: str) -> Sequence[str]:
        """The options of that agent's command. Raises ``UsageError``."""
        kind, endpoints, values = self.library(via), self.located.profile.endpoints, self.values(None)
        if kind == AGENT and endpoints.agent is not None:
            values["python"] = sys.executable
            return [filled(word, values, self.located, "endpoints.agent.command") for word in endpoints.agent.command]
        if kind == JMS and endpoints.jms is not None:
            told = shared(endpoints.jms, Provider)
            self._class_path = self._class_path or class_path(self.located)
            return ["--class-path", self._class_path, "--provider", msgspec.json.encode(told).decode()]
        return ()

    def _unsaid(self) -> set[str]:
        """Words that its protocols have no name for."""
        kinds = set(self._plays.values()) & set(WORDS)
        told = [{**WORDS[kind], **self._names(kind).headers} for kind in kinds]
        return {word for headers in told for word, header in headers.items() if not header}

    def _names(self, kind: str) -> WireNames:
        return cast("WireNames", getattr(self.located.profile.names, kind))

    def refusal(self, program: Program) -> str:
        profile, clock = self.located.profile, program.broker_host().clock
        if network := super().refusal(program):
            return network
        if clock != ClockSpec():
            if profile.start is None:
                return "[start] is missing: the broker's clock and its time zone cannot be chosen"
            if profile.start.clock == "none":
                return 'start.clock = "none": the broker\'s clock cannot be skewed'
        offered = self.capabilities()
        kills = any(isinstance(step, Restart) and step.how == "kill" for step in program.each_step())
        if kills and profile.restarts == "stop":
            return 'start.restart = "stop": nothing is promised of what a kill leaves'
        for dest in program.destinations:
            need = BY_KIND.get(dest.kind)
            if need is not None and need not in offered:
                return f"{dest.name} is a {dest.kind}, and {self.label} does not offer {need}"
        spec = program.broker
        if spec.redeliveries_max == profile.promises.redeliveries_max:
            spec = replace(spec, redeliveries_max=None)  # nobody need tell it
        if profile.operator is not None:
            if commands := strange(program):
                return f"{self.label} is others', too, so nobody tells it {commands[0]!r}"
            spec = replace(spec, mqsc=[])
        lacking = self._settings.lacking(spec, keeps=bool(profile.restarts), stamps=self._stamps())
        if lacking:
            return f"{self.label} cannot be configured as the program asks: [settings] lacks {', '.join(lacking)}"
        return ""

    def _stamps(self) -> bool:
        return self._shows_stamps() and self.found().stamps

    def _shows_stamps(self) -> bool:
        """Whether what it does with timestamps is what a probe sees."""
        return self.located.profile.promises.capabilities is None or self._is_probed()

    def effective(self, program: Program) -> Program:
        profile = self.located.profile
        told = self._settings.effective(program.broker, profile.promises.generation, stamps=self._stamps())
        if told.redeliveries_max is None:
            most = profile.promises.redeliveries_max
            told = replace(told, redeliveries_max=-1 if most == "unlimited" else most)
        if profile.restarts and "persistent" not in self._settings:
            told = replace(told, persistent=program.broker.persistent)
        mqsc = told.mqsc if profile.operator is None else program.broker.mqsc
        return replace(program, broker=replace(told, mqsc=mqsc))

    def open(self, program: Program, laboratory: Laboratory) -> Endpoint:
        alone = self.owns(program) or not (self._shares or laboratory.crowded)
        # Where nothing dies nobody collects what is dead.
        mortal = not {"ttl", "dead-letter"}.isdisjoint(self.capabilities())
        crowded = self.crowds and not alone and mortal
        if self.single:
            if self.located.profile.endpoints.stomp is not None:
                self.found()
            self.crowd.enter(alone=alone)
            return ProfileEndpoint(self, None, crowded=crowded)
        server = self.server(program.broker, program.broker_host().clock, alone=alone, rate=self.rate(program))
        return ProfileEndpoint(self, server, crowded=crowded)

    def server(self, spec: BrokerSpec, clock: ClockSpec, *, alone: bool, rate: Rate = REAL) -> Server:
        arguments = self._settings.arguments(spec)
        told = {
            name: getattr(spec, name) for name in spec.__struct_fields__ if name in self._settings or name == "policies"
        }
        key = repr((arguments, told, clock.zone_hours, rate.times))

        def start(supervisor: Supervisor, folder: Path, name: str, clock: ClockFile | RatedClock | None) -> Launcher:
            place = Place(self.located, supervisor, folder, name=name, spec=spec, arguments=arguments, clock=clock)
            start_table = self.located.profile.start
            assert start_table is not None, "only then are there servers"
            if isinstance(start_table.command, str):
                kind = class_of(self.located, "start.command", start_table.command, {})
                return cast("Launcher", kind(place))
            return CommandLauncher(place)

        return self.servers.take(key, clock, start, alone, rate)

    def close(self) -> None:
        self.servers.close()

    # -- the way in

    def values(self, server: Server | None) -> dict[str, str]:
        """The placeholders of a running broker."""
        ports = {} if server is None else server.launcher.ports
        return {"here": str(self.located.here)} | {f"port.{name}": str(port) for name, port in ports.items()}

    def access(self, via: str, server: Server | None) -> Access:
        """How clients of a kind get in. Raises ``NotApplicableError`` or ``UsageError``."""
        if via not in self._plays and len(self._plays) > 1:
            raise NotApplicableError(f"[endpoints]: {self.label} has nothing for {via} clients")
        found = way_in(self.located, self.library(via), self.values(server))
        if self.library(via) != STOMP or not (self._shows_stamps() and self.found().dates):
            return found
        names = found.names or WireNames()  # timestamps are the broker's own, so no client sends one
        return replace(found, names=replace(names, headers={**names.headers, "timestamp": ""}))

    def over_stomp(self, server: Server | None) -> Access | None:
        """The way in for our own questions; None: it speaks no STOMP."""
        has = self.located.profile.endpoints.stomp is not None
        return way_in(self.located, STOMP, self.values(server)) if has else None

    def figures(self, server: Server | None) -> Figures | None:
        """Who tells figures; None: nobody."""
        counters = self.located.profile.counters
        if counters is None:
            return None
        kind = class_of(self.located, "counters.kind", counters.kind, KINDS)
        access = self.over_stomp(server) or self.access(STOMP, server)
        return cast("Figures", kind(self.located, self.values(server), access))


def loaded(located: Located) -> type[Adapter] | None:
    """The class that does all of a profile, if it names one. Raises ``UsageError``."""
    if not located.profile.adapter:
        return None
    found: type[Adapter] = class_of(located, "adapter", located.profile.adapter, {})
    return found
