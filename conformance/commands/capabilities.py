"""Writes docs/capabilities.md, what a broker may be able to do and which requirements ask for it:
``python -m brokerproof.conformance.commands.capabilities docs/capabilities.md``.

The page is written, never edited; a guard compares it with what this module would write.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from brokerproof.conformance.agents.amqp091_agent import Amqp091Agent
from brokerproof.conformance.agents.amqp_agent import AmqpAgent
from brokerproof.conformance.agents.java_provider import ProviderLibrary
from brokerproof.conformance.agents.mqtt_agent import MqttAgent
from brokerproof.conformance.agents.openwire_agent import OpenWireAgent
from brokerproof.conformance.agents.stomp_agent import StompAgent
from brokerproof.conformance.requirements.catalogue import default_catalogue

_HEAD: Final = """# Capabilities

What a broker can do is said by words: in [profiles](profiles.md) (`promises.capabilities`), in [histories](history.md)
that somebody else recorded, and where a report says why something does not apply. A requirement that asks for a word
does not apply to a broker that lacks it. *probed*: over STOMP it is found by trying, where the profile claims nothing;
*claimed*: only you can know. Any other line of the profile that is named here gives the word, which then need not be
claimed; in a history every word is claimed. *Played over*: whose clients can ask for it; where none is named it needs
nothing of a client. Who claims `groups`, `exclusive`, `priorities` or `temporaries` is held to
what the word means, also with `profiles = ["core"]`.
This page is written from `conformance/commands/capabilities.toml` and the catalogue:
`python -m brokerproof.conformance.commands.capabilities docs/capabilities.md`.

| word | what it means | who says it | played over | asked for by |
|---|---|---|---|---|
"""
#: Our clients, by the protocol of a profile's endpoint.
_CLIENTS: Final = {
    "STOMP": StompAgent.capabilities,
    "OpenWire": OpenWireAgent.capabilities,
    "JMS": ProviderLibrary.capabilities,
    "AMQP 1.0": AmqpAgent.capabilities,
    "AMQP 0-9-1": Amqp091Agent.capabilities,
    "MQTT": MqttAgent.capabilities,
}
#: What agents call otherwise.
_AMONG_AGENTS: Final = {"broker-ttl": "lifetimes", "network": "bridges"}
#: As many requirements are named; of more, their areas.
_NAMED_MAX: Final = 6


class Capability(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a word means, and what gives it; ``over``: for which clients it is, where these do not say so themselves."""

    means: str
    by: str
    over: str = ""


def capabilities() -> dict[str, Capability]:
    """By their words, in the order of the alphabet."""
    file = resources.files("brokerproof.conformance.commands") / "capabilities.toml"
    found = msgspec.toml.decode(file.read_bytes(), type=dict[str, Capability])
    return dict(sorted(found.items()))


def text() -> str:
    """The page."""
    asking = dict[str, list[str]]()
    for requirement in default_catalogue():
        for word in requirement.words():
            asking.setdefault(word, []).append(requirement.id)
    rows = [
        f"| `{word}` | {one.means} | {one.by} | {one.over or _played(word)} | {_asked(asking.get(word, []))} |"
        for word, one in capabilities().items()
    ]
    return _HEAD + "\n".join(rows) + "\n"


def _played(word: str) -> str:
    name = _AMONG_AGENTS.get(word, word)
    able = [protocol for protocol, words in _CLIENTS.items() if name in words]
    return "all" if len(able) == len(_CLIENTS) else ", ".join(able)


def _asked(names: list[str]) -> str:
    if len(names) <= _NAMED_MAX:
        return ", ".join(names) or "programs alone"
    areas = dict.fromkeys(name.partition("-")[0] for name in names)
    return ", ".join(f"{sum(name.startswith(f'{area}-') for name in names)} of {area}" for area in areas)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
