"""Adapters without their brokers: names, settings in each broker's words, what is refused and why."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec
import pytest

from brokerproof.conformance.brokers import check_broker, make_adapter, shipped
from brokerproof.conformance.brokers.activemq import (
    generation_of,
    options_of,
    redelivery_refusal,
    release_of,
    unknown_to,
)
from brokerproof.conformance.brokers.base import Endpoint
from brokerproof.conformance.brokers.probing import Found
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.brokers.reference import ReferenceAdapter, configuration
from brokerproof.conformance.brokers.settings import told_policies
from brokerproof.conformance.brokers.through import ThroughEndpoint
from brokerproof.conformance.brokers.translation import broker_config
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.corpus.stories import stories
from brokerproof.conformance.experiment.configuration import (
    BrokerSpec,
    HostSpec,
    PolicySpec,
    RedeliverySpec,
    TimeStampingSpec,
)
from brokerproof.conformance.experiment.destinations import Destination, queues
from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.conformance.experiment.policies import entry_for
from brokerproof.conformance.experiment.program import FORMAT, Program
from brokerproof.reference_broker.core.config import GENERATIONS, BrokerConfig
from brokerproof.reference_broker.core.matching import matches
from brokerproof.reference_broker.settings.configuration import broker_config as settings_config


@pytest.mark.parametrize("name", [*shipped(), "activemq@5.12.3", "stomp://example.org:61613", "stomp+ssl://u:p@h"])
def test_known_brokers(name: str) -> None:
    check_broker(name)


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("rabbit", "did you mean 'rabbitmq'"),
        ("reference@2", "has no releases"),
        ("activemq@", "has no releases"),
        ("", "one of activemq"),
        ("http://127.0.0.1:1", "not a STOMP address"),
        ("stomp://127.0.0.1:x", "not a URL"),
        ("no/such/profile", "No such file"),
    ],
)
def test_unknown_brokers_are_bad_usage(name: str, shows: str) -> None:
    with pytest.raises(UsageError, match=shows):
        check_broker(name)


def test_a_passcode_of_a_url_is_used_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: Found([], stamps=False, server="ACME/2.1"))
    adapter = make_adapter("stomp+ssl://app:s%40cret@example.org:61614")
    assert isinstance(adapter, ProfileAdapter)
    access = adapter.access("stomp", None)
    assert (access.login, access.passcode, access.secure) == ("app", "s@cret", "example.org")
    assert adapter.label == "broker ACME 2.1"
    assert "cret" not in " ".join(adapter.chosen) + adapter.located.place


@pytest.mark.parametrize(
    ("match", "covers"), [(">", "q0.bp1"), ("q0", "q0.bp1"), ("*", "q0.bp1"), ("ActiveMQ.DLQ", "ActiveMQ.DLQ")]
)
def test_a_policy_covers_the_runs_own_names(match: str, covers: str) -> None:
    told = told_policies(BrokerSpec(policies=[PolicySpec(match)]))
    assert any(matches(one.match, f"queue://{covers}") for one in told)


def test_a_policy_covers_nothing_else() -> None:
    told = told_policies(BrokerSpec(policies=[PolicySpec("q0")]))
    assert not any(matches(one.match, f"queue://{other}") for one in told for other in ("q1.bp1", "q00.bp1"))


def test_the_widest_policy_is_told_first_because_to_some_the_last_counts() -> None:
    wide = [PolicySpec("q0.>"), PolicySpec("q0"), PolicySpec("*"), PolicySpec("topic://>"), PolicySpec(">")]
    told = [one.match for one in told_policies(BrokerSpec(policies=wide), "~")]
    assert told == [">", "topic://>", "*", "*~*", "q0~>", "ActiveMQ.DLQ"]


@pytest.mark.parametrize(("policies", "window"), [(["*"], None), (["*", ">"], 2), (["ActiveMQ.DLQ", "*"], 1)])
def test_a_policy_of_names_of_one_element_is_none_of_dead_letters(policies: list[str], window: int | None) -> None:
    """Live, ``*`` must cover ``q0.RUN``, which has as many elements as ``ActiveMQ.DLQ``."""
    spec = BrokerSpec(policies=[PolicySpec(match, queue_prefetch=at) for at, match in enumerate(policies, start=1)])
    told = BrokerSpec(policies=told_policies(spec))
    for broker in (spec, told):
        entry = entry_for(broker, "ActiveMQ.DLQ", topic=False)
        assert (None if entry is None else entry.queue_prefetch) == window
    entry = entry_for(told, "q0.bp1", topic=False)
    assert entry is not None
    assert entry.queue_prefetch == policies.index("*") + 1


def test_activemq_takes_a_name_before_a_pattern_of_names() -> None:
    """It looks at ``*.*`` before ``q1.>`` and at ``q1.*`` before both (MEM-017, measured on 5.17.2)."""
    asked = BrokerSpec(policies=[PolicySpec("q1", memory_limit_bytes=8192), PolicySpec("*"), PolicySpec(">")])
    program = Program(FORMAT, asked, [HostSpec("b", "broker"), HostSpec("c0", "client")])
    assert {"q1.*", "*.*", ">"} <= {entry.match for entry in options_of(program).policies}
    plain = msgspec.structs.replace(program, broker=BrokerSpec(policies=[PolicySpec("q1"), PolicySpec(">")]))
    assert {"q1.>", ">"} <= {entry.match for entry in options_of(plain).policies}


def test_the_servers_file_says_what_the_simulated_broker_is_told() -> None:
    spec = BrokerSpec(
        generation={"in-flight": "exact", "monitor": "classic"},
        timestamping=TimeStampingSpec(True, 5000, 70),
        memory_limit_bytes=12345,
        policies=[PolicySpec(">", 500), PolicySpec("q0", 700, 8192)],
        dead_letter_non_persistent=True,
    )
    program = msgspec.structs.replace(stories()["live-delay"].program, broker=spec)
    told = settings_config(tomllib.loads(configuration(spec))["broker"])
    wanted = broker_config(program)
    assert _plain(told) == {**_plain(wanted), "destinations": [(">", 500, 0), ("q0.>", 700, 8192)]}


@pytest.mark.parametrize("policy", [RedeliverySpec(), RedeliverySpec(maximum=2, pause_ms=70)])
def test_redelivery_is_on_where_a_program_says_nothing_but_that(policy: RedeliverySpec) -> None:
    spec = BrokerSpec(policies=[PolicySpec(redelivery=policy)])
    program = msgspec.structs.replace(stories()["live-delay"].program, broker=spec)
    (told,) = settings_config(tomllib.loads(configuration(spec))["broker"]).destinations
    (wanted,) = broker_config(program).destinations
    assert wanted.redelivery is not None
    fields = wanted.redelivery.__slots__
    assert [getattr(told.redelivery, name) for name in fields] == [getattr(wanted.redelivery, name) for name in fields]


def _plain(config: BrokerConfig) -> dict[str, object]:
    stamping = config.timestamping
    return {
        "generation": config.generation,
        "memory": config.memory_limit_bytes,
        "volatile": config.dead_letter_non_persistent,
        "stamping": stamping and (stamping.future_only, stamping.ttl_ceiling_ms, stamping.zero_expiration_override_ms),
        "destinations": [(one.match, one.expire_period_ms, one.memory_limit_bytes) for one in config.destinations],
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("policy-replaces-the-default-stomp", "queue_prefetch of >, durable_topic_prefetch of >"),
        ("dead-letters-discarding", "dead_letter of q0"),
        ("live-future-only", "timestamping"),
        ("live-delay", ""),
    ],
)
def test_a_running_broker_is_not_asked_for_a_policy_that_it_never_got(
    name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: Found([], stamps=False))
    adapter = make_adapter("stomp://127.0.0.1:61613")
    program = {**programs(), **{known: story.program for known, story in stories().items()}}[name]
    refusal = adapter.refusal(program)
    assert refusal.endswith(reason)
    assert bool(refusal) == bool(reason)


@pytest.mark.parametrize(
    ("release", "fields", "word"),
    [
        ((5, 12, 3), {"send_fail_if_no_space": True}, "AMQ-6849"),
        ((5, 15, 16), {"send_fail_if_no_space": True}, "AMQ-6849"),
        ((5, 16, 7), {"send_fail_if_no_space": True}, ""),
        ((5, 12, 3), {"topic_inflight_stats": False}, "AMQ-6940"),
        ((5, 15, 4), {"topic_inflight_stats": False}, ""),
        ((5, 12, 3), {}, ""),
    ],
)
def test_an_older_activemq_is_not_asked_for_what_it_does_not_know(
    release: tuple[int, ...], fields: dict[str, Any], word: str
) -> None:
    broker = BrokerSpec(policies=[PolicySpec(), PolicySpec("q0", **fields)])
    found = unknown_to(release, msgspec.structs.replace(stories()["live-delay"].program, broker=broker))
    assert bool(found) is bool(word)
    assert word in found


def test_through_openwire_every_host_is_played_by_our_jms_client() -> None:
    inner = ReferenceAdapter()
    adapter = make_adapter("reference", client="openwire")
    assert adapter.label == "reference openwire"
    assert set(inner.capabilities()) <= set(adapter.capabilities())
    mixed = stories()["live-000-3-stomp"].program
    cast = adapter.cast(mixed)
    assert [host.via for host in cast.clients()] == ["jms"] * len(mixed.clients())
    checks = {host.name: host.expiry_check for host in cast.clients()}
    assert all(checks[host.name] == (host.via == "jms" and host.expiry_check) for host in mixed.clients())
    assert inner.cast(mixed) == mixed


def test_through_openwire_nothing_of_an_endpoint_is_left_out() -> None:
    asked = {name for name, value in vars(Endpoint).items() if callable(value) and not name.startswith("_")}
    assert asked <= set(vars(ThroughEndpoint))


@pytest.mark.parametrize(
    ("name", "client", "message"),
    [
        ("stomp://127.0.0.1:1", "openwire", "has no OpenWire endpoint"),
        ("reference", "telnet", "client 'telnet' is not known; one of as-written, openwire"),
    ],
)
def test_a_client_that_cannot_be_is_refused(name: str, client: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_adapter(name, client=client)


def test_the_reference_declares_every_generation() -> None:
    program = ReferenceAdapter().effective(stories()["live-delay"].program)
    assert program.broker.generation["monitor"] == "documented"
    assert list(program.broker.generation) == list(GENERATIONS)


@pytest.mark.parametrize(
    ("version", "expiry", "memory"),
    [
        ("5.8.0", "documented", "G0"),
        ("5.12.3", "documented", "G1"),
        ("5.14.5", "classic-5.14", "G1"),
        ("5.15.8", "classic-5.14", "G2"),
        ("5.17.2", "classic-5.14", "G3"),
        ("6.3.1", "classic-5.14", "G3"),
        ("unknown", "classic-5.14", "G3"),
    ],
)
def test_what_a_release_is(version: str, expiry: str, memory: str) -> None:
    told = {"monitor": "classic", "expiry": expiry, "timestamping": "classic", "delay": "activemq", "memory": memory}
    assert generation_of(version) == told


def test_releases_are_ordered_as_numbers() -> None:
    assert release_of("5.9.1") < release_of("5.15.5") < release_of("5.17.2") < release_of("6.1.8")


def test_delays_need_a_scheduler_and_nothing_else_does() -> None:
    delayed = options_of(stories()["live-delay"].program)
    plain = options_of(stories()["live-redelivery"].program)
    assert (delayed.scheduler, delayed.store) == (True, "kahadb")
    assert (plain.scheduler, plain.store) == (False, "memory")


def test_settings_reach_the_options() -> None:
    spec = BrokerSpec(
        timestamping=TimeStampingSpec(True, 1, 2),
        memory_limit_bytes=777,
        policies=[PolicySpec("q0", 250, 99)],
        dead_letter_non_persistent=True,
    )
    options = options_of(msgspec.structs.replace(stories()["live-redelivery"].program, broker=spec))
    assert options.timestamping is not None
    assert (options.timestamping.future_only, options.timestamping.ttl_ceiling_ms) == (True, 1)
    assert options.memory_limit_bytes == 777
    policy = options.policies[0]
    assert (policy.match, policy.expire_period_ms, policy.memory_limit_bytes) == ("q0.>", 250, 99)
    assert policy.process_non_persistent


def test_of_policies_with_the_same_pattern_activemq_is_given_the_one_that_applies() -> None:
    """It knows no kinds in a pattern, and takes any of several entries."""
    policies = [PolicySpec(">", 500), PolicySpec("queue://>", 700), PolicySpec("topic://q0", 900), PolicySpec(">", 1)]
    spec = BrokerSpec(policies=policies)
    options = options_of(msgspec.structs.replace(stories()["live-redelivery"].program, broker=spec))
    given = [(one.kind, one.match, one.expire_period_ms) for one in options.policies]
    assert sorted(given) == [("queue", ">", 700), ("topic", ">", 500), ("topic", "q0.>", 900)]


LATER = RedeliverySpec(initial_ms=1100, pause_ms=1100)
VANISHES = msgspec.structs.replace(LATER, dead_letter=False)


@pytest.mark.parametrize(
    ("policies", "reason"),
    [
        ([PolicySpec("q0"), PolicySpec(redelivery=LATER)], "by the wider policy > (redelivery)"),
        (
            [PolicySpec("q0", redelivery=LATER), PolicySpec(redelivery=VANISHES)],
            "on all queues, or on none (redelivery)",
        ),
        ([PolicySpec(redelivery=RedeliverySpec(pause_ms=100))], "asks for a shorter pause"),
        ([PolicySpec("q0", redelivery=LATER), PolicySpec(redelivery=LATER)], ""),
        ([PolicySpec("topic://>"), PolicySpec(redelivery=LATER)], ""),
    ],
)
def test_activemq_is_not_asked_for_a_redelivery_that_it_cannot_be_told(policies: list[PolicySpec], reason: str) -> None:
    program = msgspec.structs.replace(stories()["live-redelivery"].program, broker=BrokerSpec(policies=policies))
    refusal = redelivery_refusal(program, "activemq 5.17.2")
    assert refusal.endswith(reason)
    assert bool(refusal) == bool(reason)


def test_a_redelivery_policy_is_about_queues_and_about_the_parts_of_composites() -> None:
    def refused(*dests: Destination) -> str:
        broker = BrokerSpec(policies=[PolicySpec("x"), PolicySpec(redelivery=LATER)])
        program = stories()["live-redelivery"].program
        return redelivery_refusal(msgspec.structs.replace(program, broker=broker, destinations=list(dests)), "activemq")

    assert not refused(Destination("x", "topic"), Destination("q0", "queue"))
    assert "on x by" in refused(Destination("x,q0", "composite", of=queues("x", "q0")))
