"""The brokers that can be tested, by what ``--broker`` takes: the name of a profile beside this file (``NAME`` or
``NAME@RELEASE``), a profile of one's own (``FILE.toml``), or the URL of a running broker.

Nothing else in ``conformance`` knows a broker by its name; a new one is a new profile (docs/profiles.md).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brokerproof.conformance.brokers.chosen import Chosen, hidden, is_place
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.nearest import suggestion
from brokerproof.conformance.experiment.results import REFERENCE

if TYPE_CHECKING:
    from brokerproof.conformance.brokers.base import Adapter
    from brokerproof.conformance.brokers.profile import Located

HERE: Final = Path(__file__).parent
#: Who plays a program's hosts: name -> what it is.
CLIENTS: dict[str, str] = {
    "as-written": "each host by the library that its program names: STOMP by ours, JMS by ActiveMQ's Java client",
    "openwire": "every host by brokerproof's own OpenWire client; STOMP hosts become JMS hosts that check no expiry",
    "stomp": "every host over the profile's endpoint stomp",
    "amqp": "every host over AMQP 1.0, by Qpid Proton",
    "amqp091": "every host over AMQP 0-9-1, by pika",
    "mqtt": "every host over MQTT 5, by Eclipse Paho",
    "jms": "every host by the JMS provider that the profile names",
    "agent": "every host by the agent that the profile names",
}


def shipped() -> dict[str, str]:
    """The names of the profiles that come with the suite, and what each is."""
    from brokerproof.conformance.brokers.profile import read_profile

    return {path.stem: read_profile(path).profile.about for path in sorted(HERE.glob("*.toml"))}


def releases_of(name: str) -> tuple[str, ...]:
    """The releases that a shipped profile can be asked for (``NAME@RELEASE``), oldest first."""
    from brokerproof.conformance.brokers.profile import read_profile
    from brokerproof.conformance.brokers.profiled import loaded

    kind = loaded(read_profile(HERE / f"{name}.toml"))
    return () if kind is None else tuple(kind.releases)


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in HERE.glob("*.toml")))


def check_broker(text: str, home: str | None = None, mutant: str | None = None) -> None:
    """Raises ``UsageError`` for a broker that cannot exist, and for a home folder or a mutant of one that has none."""
    from brokerproof.conformance.brokers.profile import read_profile
    from brokerproof.conformance.brokers.profiled import loaded

    if "://" in text:
        adapter = None
        _of_url(text)
    elif is_place(text):
        adapter = loaded(read_profile(Path(text)))
    else:
        name, at, release = text.partition("@")
        if name not in _names():
            near = suggestion(name, _names())
            raise UsageError(
                f"broker {text!r} is not known; {near}one of {', '.join(_names())}, a profile (FILE.toml) or a URL "
                "(stomp://HOST:PORT)"
            )
        adapter = loaded(read_profile(HERE / f"{name}.toml"))
        if at and (adapter is None or not adapter.releases or not release):
            raise UsageError(f"broker {text!r}: {name} has no releases to choose from; write {name}")
    if home is not None and (adapter is None or not adapter.homes):
        raise UsageError(f"--home {home} is the home folder of a broker, but {text!r} is not started from one")
    if mutant is not None and text != REFERENCE:
        raise UsageError(f"--mutant {mutant} plants a defect in the reference broker, not in {text!r}")


def make_adapter(
    text: str = REFERENCE,
    *,
    home: str | None = None,
    mutant: str | None = None,
    client: str = "as-written",
    speed: int | None = None,
) -> Adapter:
    """An adapter for a broker. Raises ``UsageError``, ``ToolMissing`` or what ``chaos.brokers`` raises."""
    from brokerproof.conformance.brokers.profile import read_profile
    from brokerproof.conformance.brokers.profiled import ProfileAdapter, loaded

    check_broker(text, home, mutant)
    if client not in CLIENTS:
        raise UsageError(f"client {client!r} is not known; one of {', '.join(CLIENTS)}")
    chosen = Chosen(text, home=home, mutant=mutant, client=client, speed=speed)
    if "://" in text:
        located = _of_url(text)
    else:
        located = read_profile(Path(text) if is_place(text) else HERE / f"{text.partition('@')[0]}.toml")
    if client == "openwire" and located.profile.endpoints.openwire is None:
        raise UsageError(f"--client openwire: {text!r} has no OpenWire endpoint; leave it out")
    kind = loaded(located)
    if kind is not None and client not in {"as-written", "openwire"}:
        raise UsageError(f"--client {client}: {text!r} is a class of ours, which has its own; leave it out")
    adapter = (
        ProfileAdapter(located, "as-written" if client == "openwire" else client)
        if kind is None
        else kind.of_profile(located, chosen)
    )
    if speed is not None:
        if not 1 <= speed <= adapter.speed_max:
            remedy = f"give 1 to {adapter.speed_max}" if adapter.speed_max > 1 else "its time is real; leave it out"
            raise UsageError(f"--speed {speed} is not possible on {text!r}: {remedy}")
        adapter.speed = speed
    if client == "openwire":
        from brokerproof.conformance.brokers.through import ThroughOpenWire

        adapter = ThroughOpenWire(adapter)
    adapter.chosen = chosen.words()
    return adapter


def _of_url(url: str) -> Located:
    """The profile of a running broker of which only the URL is known. Raises ``UsageError``."""
    from brokerproof.conformance.brokers.addresses import SCHEMES, parse_url
    from brokerproof.conformance.brokers.profile import (
        Endpoints,
        Located,
        Profile,
        Promises,
        StompAt,
        Version,
    )

    shown = hidden(url)
    bare = Located(Profile(name="broker", endpoints=Endpoints()), shown, Path.cwd())
    if url.partition("://")[0] not in SCHEMES["stomp"]:
        raise UsageError(f"{shown} is not a STOMP address; give stomp://HOST:PORT, or a profile (FILE.toml)")
    parse_url(url, "stomp", bare, "the URL")
    profile = Profile(
        name="broker", version=Version(greeting="*"), endpoints=Endpoints(stomp=StompAt(url=url)), promises=Promises()
    )
    return Located(profile, shown, Path.cwd(), probed=True)
