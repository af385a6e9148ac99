"""The broker that a reproducer is for: how it is configured, and what it calls things."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from brokerproof.chaos.brokers.beans import broker_xml
from brokerproof.chaos.brokers.jars import DEBIAN_VERSION
from brokerproof.conformance.brokers import HERE, check_broker
from brokerproof.conformance.brokers.activemq import ActiveMQAdapter, options_of, release_of
from brokerproof.conformance.brokers.chosen import Chosen, is_place
from brokerproof.conformance.brokers.profile import Profile, read_profile
from brokerproof.conformance.brokers.profiled import loaded
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.known import Known, load_known

if TYPE_CHECKING:
    from brokerproof.conformance.experiment.program import Program

#: In an exported configuration: the data folder, which whoever runs it chooses.
DATA = "@DATA@"


class Target(msgspec.Struct, frozen=True):
    """``label`` as a column is called; ``classic``: it is ActiveMQ Classic, with a configuration in XML."""

    label: str
    profile: Profile
    classic: bool
    release: tuple[int, ...]

    def known(self) -> Known:
        """Its known deviations."""
        return load_known(self.label)

    def configuration(self, program: Program, openwire_port: int = 61616, stomp_port: int = 61613) -> str:
        """What the broker must be configured with: ActiveMQ's XML, or the program's settings."""
        if self.classic:
            return broker_xml(options_of(program), Path(DATA), openwire_port, stomp_port).replace("><", ">\n<")
        settings = msgspec.json.encode(program.broker).decode()
        return f"the broker's settings: {settings}"


def target(text: str) -> Target:
    """The broker by what ``--broker`` takes but a URL. Nothing is fetched or started. Raises ``UsageError``."""
    if "://" in text:
        raise UsageError(f"{text}: give the broker's name or profile; the exported file takes an address from BROKER")
    check_broker(text)
    located = read_profile(Path(text) if is_place(text) else HERE / f"{text.partition('@')[0]}.toml")
    kind = loaded(located)
    classic = kind is not None and issubclass(kind, ActiveMQAdapter)
    version = Chosen(text).release or (DEBIAN_VERSION if classic else "")
    return Target(f"{located.profile.name} {version}".strip(), located.profile, classic, release_of(version))
