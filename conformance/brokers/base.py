"""How a broker is opened and looked at: the small interface behind which the live world knows no broker by name.

An ``Adapter`` is a kind of broker at hand (a release, a URL); ``open`` makes an ``Endpoint``, one running broker that
fits a program's settings.

Rules
* What a broker cannot do is said by ``capabilities`` (then requirements that need it are *not applicable*), what a
  program asks that it cannot be configured for by ``refusal`` (then the whole run is *not applicable*, with the
  reason).
* A counter that does not exist is absent, never 0. A clock that cannot be read is None, and then a fault on it has no
  evidence.
* Destinations are physical names, ``queue://NAME`` or ``topic://NAME``.
* Whoever opened an endpoint disposes of it; an adapter may then use the same broker again for a later run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import msgspec

from brokerproof.chaos.ports import LOOPBACK
from brokerproof.chaos.rates import REAL, Rate, rate_of
from brokerproof.conformance.brokers.pacing import real_ms, times_of
from brokerproof.conformance.experiment.exits import SuiteProblem
from brokerproof.conformance.experiment.wire_names import WireNames
from brokerproof.conformance.known import load_known

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from brokerproof.chaos.clocks import ClockFile, ClockReading
    from brokerproof.chaos.processes import Process, Supervisor
    from brokerproof.conformance.brokers.chosen import Chosen
    from brokerproof.conformance.brokers.profile import Located
    from brokerproof.conformance.brokers.translation import Names
    from brokerproof.conformance.experiment.program import Program
    from brokerproof.conformance.known import Known
    from brokerproof.conformance.requirements.catalogue import Requirement


STOMP_URL = "stomp://{host}:{port}"


class NotApplicableError(Exception):
    """This broker, or the transport to it, cannot be what the program asks for. The text names what."""


class Laboratory(Protocol):
    """What an adapter needs of the place where live runs happen (``worlds/live/laboratory.py``)."""

    @property
    def folder(self) -> Path:
        """For the files of this place's processes; it goes with the place."""

    @property
    def crowded(self) -> bool:
        """Whether several runs happen here at once."""

    @property
    def supervisor(self) -> Supervisor:
        """Who starts and ends processes."""

    def clock(self, name: str, offset_ms: int, zone_hours: int = 0) -> tuple[ClockFile | None, dict[str, str]]:
        """A clock file, None where none can be had nor is needed, and the environment of a process on it."""

    def fresh_name(self, stem: str) -> str:
        """A name that was never given before."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Where and as whom clients of a kind connect; ``names`` None: ActiveMQ's. ``secure``: the name in the broker's
    certificate, "" without TLS. ``url``: what the client is told, with ``{host}`` and ``{port}``.
    """

    url: str = STOMP_URL

    host: str = LOOPBACK
    port: int
    login: str = ""
    passcode: str = ""
    virtual_host: str = ""
    versions: tuple[str, ...] = ()
    names: WireNames | None = None
    secure: str = ""
    ca: str = ""


class Connector(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker that connects itself to another one is told: the ports at which it finds itself and the other, and
    what it carries there (``queue://NAME``, ``topic://NAME``), with at most ``prefetch`` messages of one on their way.
    """

    name: str
    near_port: int
    far_port: int
    destinations: tuple[str, ...]
    prefetch: int


class Operated:
    """What an operator was answered: how many messages it concerned, where the broker tells, and what was ``shown``, or
    why not.
    """

    def __init__(self, count: int | None, refusal: str = "", shown: list[str] | None = None) -> None:
        self.count = count
        self.refusal = refusal
        self.shown = shown or []


class Endpoint(ABC):
    """One running broker, as one run sees it."""

    #: The column in the report, with the release: ``activemq 5.17.2``.
    label: str
    #: Its own clock; None where it cannot be skewed.
    clock_file: ClockFile | None = None
    #: Which process or address of the adapter it is; whether other runs may use that meanwhile, and leave dead letters
    #: in the one queue of all.
    place: str = ""
    crowded: bool = False
    #: Whether a NACK may reject what came before as well; nobody knows that of a stranger.
    nack_ranges: bool = False

    @abstractmethod
    def port(self, via: str) -> int:
        """The loopback port for clients of a kind (``stomp``, ``jms``). Raises ``NotApplicableError``."""

    def access(self, via: str) -> Access:
        """The same with everything that a client must know. Raises ``NotApplicableError``."""
        return Access(port=self.port(via), url="tcp://{host}:{port}" if via == "jms" else STOMP_URL)

    @abstractmethod
    def counters(self, dest: str | None) -> dict[str, int] | None:
        """Figures of a destination, or of the broker; None: this broker cannot be asked."""

    @abstractmethod
    def read_clock(self) -> ClockReading | None:
        """The broker's own wall clock, read through another channel than the one that sets it."""

    def library(self, via: str) -> str:
        """Which agent plays hosts of a kind (``agents/kinds.py``)."""
        return via

    def words(self, via: str) -> Sequence[str]:
        """The options of that agent's command."""
        del via
        return ()

    def blamed(self, line: str, text: str) -> Exception:
        """An agent has found a line of the profile to be wrong."""
        return SuiteProblem(f"{self.label}: {line}: {text}")

    def declare(self, program: Program, names: Names) -> None:
        """A run begins: its destinations, before anybody uses them, for a broker where each must be made."""
        del program, names

    def operate(self, op: str, dest: str, to: str, limit_bytes: int = 0) -> Operated | None:
        """``purge`` a queue, ``move`` what waits there ``to`` another, ``reset`` its totals, set its memory ``limit``
        or (no ``dest``) the broker's, give a queue manager the ``mqsc`` command ``to``; None: nobody can ask this
        broker.
        """
        del op, dest, to, limit_bytes
        return None

    def restart(self, how: str) -> dict[str, int] | None:
        """``stop`` or ``kill`` the broker's process and start it again over what it had stored, on the same ports.

        Returns the evidence (process ids, exit code); None: this broker is not ours to restart.
        """
        del how
        return None

    def process(self) -> Process | None:
        """The broker's process; None: it is not ours."""
        return None

    def closings(self) -> list[str]:
        """Why the broker closed connections since the last call, where it says so (its log)."""
        return []

    def reports(self, port: int) -> int | None:
        """How often the broker told its operator that it gave up the connection of a peer with this port; None: that
        cannot be read.
        """
        del port
        return None

    def resources(self) -> dict[str, int] | None:
        """Threads and sockets of the broker's process; None: nobody can count them."""
        return None

    def stand_still(self, *, paused: bool) -> bool:
        """Stop the broker's process in its tracks, or let it go on; False: it is not ours."""
        del paused
        return False

    @abstractmethod
    def dispose(self, *, spoilt: bool = False) -> None:
        """The run is over. ``spoilt``: a later run must not use this broker again."""


class Adapter(ABC):
    """A kind of broker at hand."""

    #: What ``--broker`` calls it, and the column in the report: the name with the release.
    name: str
    label: str
    #: How many runs it bears side by side: of the corpus, and of random programs.
    workers: int = 1
    lanes: int = 1
    #: Whether a run may get the broker of an earlier one; then the order of runs matters.
    shares: bool = True
    #: Whether each run has a broker of its own, on which destinations may be called as in the program.
    alone: bool = False
    #: What stands between the parts of a destination's name.
    separator: str = "."
    #: Whether there is only one: a run that owns it waits for all others, and they for it.
    single: bool = False
    #: Whether runs at once use one broker, and so one laboratory, which collects dead letters for all.
    crowds: bool = False
    #: Whether its brokers connect themselves to others; else a bridge of ours does.
    connects: bool = False
    #: Whether it is the generations that a program asks for, with the deviations that are expected of them.
    chooses_generations: bool = False
    #: What a consumer gets that asks for no prefetch; None: what the protocol says, or nobody says.
    default_prefetch: int | None = None
    #: How many times as fast as the machine programs are played whose durations bear it; what its brokers bear at most.
    speed: int = 1
    speed_max: int = 1
    #: How late it may be in real time when nothing disturbs it.
    lateness_ms: int = 1000
    #: After how many of a silent STOMP client's periods it gives it up; None: its documentation does not say.
    heart_beat_grace: float | None = None
    #: From when a delay counts of what is sent in a transaction.
    delay_begins: Literal["send", "commit"] = "send"
    #: A defect that is planted in it, and in the bridges beside it.
    mutant: str | None = None
    #: What its operator can be asked for.
    operations: Collection[str] = ("purge", "move", "reset", "limit", "mqsc")
    #: The options of a command by which it was chosen.
    chosen: tuple[str, ...] = ()
    #: The releases to choose from (``NAME@RELEASE``), oldest first, and whether it can be started from a home folder.
    releases: ClassVar[Sequence[str]] = ()
    homes: ClassVar[bool] = False

    @classmethod
    def of_profile(cls, located: Located, chosen: Chosen) -> Adapter:
        """The one that a profile names as its ``adapter``."""
        raise located.wrong("adapter", f"{cls.__name__} cannot be made for {chosen.text}")

    @abstractmethod
    def capabilities(self) -> list[str]:
        """In the words of ``Requirement.needs``."""

    def refusal(self, program: Program) -> str:
        """Why this broker cannot run the program at all; "" if it can."""
        if any(host.user for host in program.hosts) and "users" not in self.capabilities():
            return f"its hosts log in as users of their own (user), and {self.label} is not told of any"
        several = len(program.brokers()) > 1 and "network" not in self.capabilities()
        return f"it is about several brokers, and nobody starts more than one {self.label} for a run" if several else ""

    def cast(self, program: Program) -> Program:
        """The program as it is played here: its hosts may be played by another client library."""
        return program

    def fitted(self, program: Program, seed: int) -> Program:
        """The random program of a seed without what this broker lacks."""
        del seed
        return program

    def library(self, via: str) -> str:
        """Which agent plays hosts of a kind, as ``Endpoint.library``; ``stomp`` is hired before the broker is open."""
        return via

    def rate(self, program: Program) -> Rate:
        """Of the time in which a program is played."""
        return rate_of(times_of(program, self.speed)) if self.speed > 1 else REAL

    def real_ms(self, program: Program) -> int:
        """How much real time its steps may take, about."""
        return real_ms(program, self.rate(program).times)

    def owns(self, program: Program) -> bool:
        """Whether the program must have the broker to itself."""
        del program
        return True

    def sharing_key(self, program: Program) -> str:
        """What programs have in common that can use one broker after another."""
        return repr((program.broker, program.broker_host().clock.zone_hours))

    def lines(self) -> dict[str, str]:
        """Capability -> the line of the profile that would switch it on."""
        return {}

    def unpromised(self, requirement: Requirement) -> str:
        """Why a requirement does not apply to this broker; "" if it does."""
        del requirement
        return ""

    def unclaimed(self, requirement: Requirement) -> str:
        """Why nobody has promised a requirement that applies all the same: kept, it counts; not kept, it is no
        accusation. "" if somebody has.
        """
        del requirement
        return ""

    def about(self) -> dict[str, str]:
        """What a report says of it: its promises, what was probed; name -> words."""
        return {}

    def known(self) -> Known:
        """Its known deviations. Raises ``SuiteProblem``."""
        return load_known(self.label)

    def effective(self, program: Program) -> Program:
        """The program with its ``broker`` object as this broker really is; that goes into the history's ``declared``.

        A broker that cannot be asked for a generation (DESIGN section 4) says here which one it is.
        """
        return program

    @abstractmethod
    def open(self, program: Program, laboratory: Laboratory) -> Endpoint:
        """A running broker with the program's settings and its host's clock.

        Raises ``ToolMissing`` or ``NotApplicableError``.
        """

    def open_beside(self, program: Program, laboratory: Laboratory, connectors: Sequence[Connector]) -> Endpoint:
        """The same of a network's broker, which has these connectors (none unless it ``connects``)."""
        del connectors
        return self.open(program, laboratory)

    def close(self) -> None:  # noqa: B027 - not every kind keeps something
        """Stop what is kept for later runs."""
