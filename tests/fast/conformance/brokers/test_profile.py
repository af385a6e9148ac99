"""The profile's file: what it may say, and what is said of a mistake (value, place, remedy)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import msgspec
import pytest
from msgspec.structs import replace

from brokerproof.chaos.processes import NotReady
from brokerproof.conformance.agents.dialect import Dialect, DialectFraming
from brokerproof.conformance.brokers import HERE, launching
from brokerproof.conformance.brokers.addresses import way_in
from brokerproof.conformance.brokers.base import Access
from brokerproof.conformance.brokers.casting import cast
from brokerproof.conformance.brokers.launching import CommandLauncher, Launcher
from brokerproof.conformance.brokers.line import NameRefused, ProbeError
from brokerproof.conformance.brokers.placeholders import filled, ports_in
from brokerproof.conformance.brokers.probing import Found
from brokerproof.conformance.brokers.profile import UNLIMITED, Located, parse_profile, read_profile, revealed
from brokerproof.conformance.brokers.profiled import ProfileAdapter
from brokerproof.conformance.brokers.proving import _answers, _claims, _untried, begun_again
from brokerproof.conformance.brokers.settings import Settings
from brokerproof.conformance.commands.profile import main as profile_command
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.configuration import (
    BrokerSpec,
    DeadLetterSpec,
    DeclaredSpec,
    PolicySpec,
    TimeStampingSpec,
)
from brokerproof.conformance.experiment.destinations import Destination, Destinations
from brokerproof.conformance.experiment.exits import OK, UsageError
from brokerproof.conformance.experiment.policies import UNASKED, own_dead_letter_queues, window_of
from brokerproof.conformance.experiment.steps import Nack, Send
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind
from brokerproof.conformance.experiment.wire_names import WireNames
from brokerproof.conformance.facts.policy import Applied
from brokerproof.conformance.requirements.catalogue import default_catalogue
from brokerproof.conformance.running.live import explained
from brokerproof.reference_broker.stomp.frames import Frame

LEAST = 'name = "b"\n[endpoints]\nstomp = { url = "stomp://127.0.0.1:1" }\n'


def parsed(more: str = "", least: str = LEAST) -> Located:
    return parse_profile(least + more, "b.toml", Path("/nowhere"))


def test_a_name_and_an_endpoint_are_enough() -> None:
    profile = parsed().profile
    assert (profile.start, profile.counters, profile.settings) == (None, None, {})


@pytest.mark.parametrize("path", sorted(HERE.glob("*.toml")), ids=lambda path: path.stem)
def test_what_we_ship_is_read(path: Path) -> None:
    assert read_profile(path).profile.name == path.stem
    assert read_profile(path).profile.about


@pytest.mark.parametrize(
    ("more", "shows"),
    [
        ('[promises]\nprofils = ["core"]', "b.toml: promises.profils: unknown key; did you mean 'profiles'?"),
        ('[start]\ncommand = ["x"]\nredy = 1', "start.redy: unknown key; did you mean 'ready'?"),
        (
            '[promises]\ncapabilities = ["selector"]',
            "capabilities: nothing needs 'selector'; did you mean 'selectors'?",
        ),
        ('[promises]\ncapabilities = ["nack or requeue"]', "capabilities: nothing needs 'nack or requeue'"),
        ('[promises]\nprofiles = ["cor"]', "promises.profiles: 'cor' is none; did you mean 'core'?"),
        ('[promises]\nreject = "ignore"', "promises.reject: 'ignore' is none; known: redeliver, dead-letter, drop"),
        ("[promises]\nheart_beat_grace = 0.5", "heart_beat_grace: Expected `float` >= 1.0 (it is 0.5)"),
        ('[start]\ncommand = ["x"]\nspeed = 0', "start.speed: Expected `int` >= 1 (it is 0)"),
        ('[settings]\ntimestamping = ["-t"]', 'settings: nothing takes them; put "{settings}" into start.command'),
        ('[names.stomp]\nqueue = "/queue/x"', "names.stomp.queue: '/queue/x' must hold {name} once"),
        ('[names.stomp.headers]\nexpiratio = "x"', "headers.expiratio: unknown word; did you mean 'expiration'?"),
        (
            '[names.stomp.identifiers]\nJMSPriorty = "x"',
            "names.stomp.identifiers.JMSPriorty: no selector asks for it; did you mean 'JMSPriority'?",
        ),
        ('[counters]\nkind = "x"\nmap = { sise = "y" }', "counters.map.sise: no figure of ours; did you mean 'size'?"),
        ('[names.amqp.headers]\nexpire = "x"', "names.amqp.headers.expire: unknown word; did you mean 'expiration'?"),
        ('[names]\nseparator = "ab"', "names.separator: 'ab' is none; known: ., _, :, /, ~, -"),
        ('[names.mqtt]\ntopic = "t"', "names.mqtt.topic: 't' must hold {name} once"),
        ('[start]\ncommand = ["x"]\nget = { home = "maven:artemis" }', "start.get.home: 'maven:artemis' is not maven:"),
        ("[", "a broker profile is a TOML file"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_remedy(more: str, shows: str) -> None:
    with pytest.raises(UsageError) as error:
        parsed(more)
    assert shows in str(error.value)


def test_another_format_is_refused() -> None:
    with pytest.raises(UsageError, match="format"):
        parsed(least=f'format = "brokerproof/broker/2"\n{LEAST}')


def test_without_an_endpoint_there_is_nothing_to_play() -> None:
    with pytest.raises(UsageError, match="endpoints: there is none; add a line"):
        parsed(least='name = "b"\n[endpoints]\n')


@pytest.mark.parametrize(
    ("more", "shows"),
    [
        ('[promises.generation]\nexpiri = "x"', "promises.generation"),
        ('[counters]\nkind = "jolokai"', "counters.kind: 'jolokai' is not known; did you mean 'jolokia'?"),
        ('[counters]\nkind = "python:no.such:Thing"', "cannot be loaded"),
        ('[start]\ncommand = ["x", "{settings}"]\n[settings]\ntimestampin = []', "did you mean 'timestamping'?"),
        (
            '[start]\ncommand = ["x", "{settings}"]\n[settings]\nredelivery = ["{match}={maximun}"]',
            "settings.redelivery: {maximun} has no value in '{match}={maximun}'; did you mean 'maximum'? known: ",
        ),
        (
            '[start]\ncommand = ["x", "{settings}"]\n[settings]\npersistent = ["{match}"]',
            "settings.persistent: {match} has no value in '{match}'; known: {value}",
        ),
    ],
)
def test_what_a_word_means_is_known_before_anything_starts(more: str, shows: str) -> None:
    with pytest.raises(UsageError) as error:
        ProfileAdapter(parsed(more))
    assert shows in str(error.value)


def test_placeholders_are_filled_or_refused() -> None:
    located = parsed()
    assert filled("{here}/x:{port.stomp} {NOT}", {"here": "/h", "port.stomp": "7"}, located, "l") == "/h/x:7 {NOT}"
    assert ports_in("{port.a}{port.b}", "{port.a}") == ["a", "b"]
    with pytest.raises(UsageError, match=r"start.command: .port.stom. has no value .* did you mean"):
        filled("{port.stom}", {"port.stomp": "7"}, located, "start.command")


def test_a_secret_is_read_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    located = parsed()
    monkeypatch.setenv("MY_SECRET", "s3")
    assert revealed("a:env:MY_SECRET", located, "l") == "a:s3"
    monkeypatch.delenv("MY_SECRET")
    with pytest.raises(UsageError, match=r"endpoints.stomp.passcode: the variable MY_SECRET is not set"):
        revealed("env:MY_SECRET", located, "endpoints.stomp.passcode")


def test_what_is_claimed_over_stomp_has_a_header() -> None:
    lines = '[promises]\ncapabilities = ["ttl", "exclusive"]\n'
    assert parsed(lines).profile.promises.capabilities == ["ttl", "exclusive"]
    with pytest.raises(UsageError, match=r"'exclusive' is claimed, and names.stomp.headers.exclusive = \"\" says"):
        parsed(f'{lines}[names.stomp.headers]\nexclusive = ""\n')
    with pytest.raises(UsageError, match=r"names.stomp.headers.browser_end = \"\" says that there is no such header"):
        parsed('[promises]\ncapabilities = ["browsers"]\n[names.stomp.headers]\nbrowser_end = ""\n')


def test_who_claims_logins_has_one() -> None:
    claimed = '[promises]\ncapabilities = ["logins"]\n'

    def login(url: str) -> str:
        least = LEAST.replace("stomp://", f"stomp://{url}")
        return way_in(parsed(claimed, least=least), "stomp", {"port": "1"}).login

    assert login("app:secret@") == "app"
    for url, lacking in (("", "login"), ("app@", "passcode")):
        with pytest.raises(UsageError, match=rf".logins. is claimed without endpoints.stomp.{lacking}"):
            login(url)


def settings(table: str) -> Settings:
    return Settings(parsed(f'[start]\ncommand = ["x", "{{settings}}"]\n[settings]\n{table}'))


def test_settings_become_words_of_the_command_line() -> None:
    told = settings('timestamping = ["-t", "{future_only},{ttl_ceiling_ms}"]\nexpire_period_ms = ["{match}={value}"]')
    spec = BrokerSpec(timestamping=TimeStampingSpec(True, 5), policies=[PolicySpec("q0", 700)])
    assert told.arguments(spec) == ["-t", "true,5", "q0.>=700"]
    assert told.lacking(spec) == []
    assert told.effective(spec, {}).policies[0].expire_period_ms == 700


def test_what_cannot_be_set_is_lacking_or_declared_as_the_least() -> None:
    told = settings('memory_limit_bytes = ["-m", "{value}"]')
    spec = BrokerSpec(timestamping=TimeStampingSpec(), persistent=True, policies=[PolicySpec("q0", 700, 99)])
    assert told.lacking(spec) == ["timestamping", "persistent", "memory_limit_bytes of q0"]
    assert told.lacking(spec, keeps=True, stamps=True) == ["memory_limit_bytes of q0"]
    least = told.effective(spec, {"expiry": "documented"})
    assert (least.timestamping, least.policies[0].expire_period_ms) == (None, 0)


@pytest.mark.parametrize(
    ("table", "broker", "everywhere"),
    [
        ('memory_limit_bytes = ["-m", "{value}"]', ["-m", "5"], None),
        ('memory_limit_bytes = ["-q", "{match}={value}"]', None, ["-q", ">=7"]),
        ('memory_limit_bytes = ["-m", "{value}"]\n"policies.memory_limit_bytes" = ["-q", "{value}"]',
         ["-m", "5"], ["-q", "7"]),
    ],
)  # fmt: skip
def test_a_limit_of_destinations_is_not_told_as_the_brokers(
    table: str, broker: list[str] | None, everywhere: list[str] | None
) -> None:
    told, policies = settings(table), [PolicySpec(">", memory_limit_bytes=7)]
    for spec, words in ((BrokerSpec(memory_limit_bytes=5), broker), (BrokerSpec(policies=policies), everywhere)):
        assert (told.lacking(spec) == []) is (words is not None)
        assert told.arguments(spec) == (words or [])
    kept = told.effective(BrokerSpec(memory_limit_bytes=5), {}).memory_limit_bytes
    assert kept == (5 if broker else BrokerSpec().memory_limit_bytes)


def test_what_a_narrower_policy_leaves_at_its_default_is_told_where_a_wider_one_says_something() -> None:
    told = settings('send_fail_if_no_space = ["-f", "{match}={value}"]\nmemory_limit_bytes = ["-m", "{match}={value}"]')
    wide = PolicySpec(">", send_fail_if_no_space=True)
    beside = BrokerSpec(policies=[PolicySpec("queue://>"), wide, PolicySpec("topic://q0")])
    assert told.arguments(beside) == ["-f", ">=true", "-f", "queue://>=false", "-f", "topic://q0.>=false"]
    assert told.arguments(
        BrokerSpec(policies=[PolicySpec("queue://q0"), PolicySpec("topic://>", memory_limit_bytes=9)])
    ) == [
        "-m",
        "topic://>=9",
    ]
    unsaid = BrokerSpec(policies=[PolicySpec("queue://>"), PolicySpec(">", memory_limit_bytes=9)])
    assert told.lacking(unsaid) == ["no memory_limit_bytes of queue://> beside that of a wider policy"]


def test_a_broker_that_takes_no_dots_is_told_none() -> None:
    separated = '[names]\nseparator = "_"\n'
    located = parsed(
        f'{separated}[start]\ncommand = ["x", "{{settings}}"]\n[settings]\nmemory_limit_bytes = ["{{match}}"]'
    )
    spec = BrokerSpec(policies=[PolicySpec(name, memory_limit_bytes=9) for name in ("a.b", "q*", ">")])
    assert Settings(located).arguments(spec) == [">", "a_b_>", "q*", "q*_*"]
    assert ProfileAdapter(parsed(f"{separated}[promises]\ncapabilities = []\n")).separator == "_"


def test_a_documented_grace_is_judged_and_an_unsaid_one_is_not() -> None:
    for line, grace in (("heart_beat_grace = 1.5", 1.5), ("", None)):
        assert ProfileAdapter(parsed(f"[promises]\ncapabilities = []\n{line}")).heart_beat_grace == grace


def adapter(more: str, monkeypatch: pytest.MonkeyPatch, offered: list[str]) -> ProfileAdapter:
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: Found(offered, stamps=False, asked=("ttl",)))
    return ProfileAdapter(parsed(more))


def test_forms_of_selectors_that_a_probe_saw_refused_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Found(["selectors"], stamps=False, refused=("BETWEEN",))
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: found)
    for words, refused in (("", ("BETWEEN",)), ('capabilities = ["selectors"]', ("BETWEEN",)),
                           ('capabilities = ["selectors", "jms-selectors"]', ()),
                           ("capabilities = []", ()), ('profiles = ["jms"]', ())):  # fmt: skip
        told = ProfileAdapter(parsed(f'[names.stomp.identifiers]\nJMSPriority = "prio"\n[promises]\n{words}\n'))
        assert told.language().refused == refused
        assert told.language().identifiers["stomp"] == {"JMSPriority": "prio"}
        assert ("selectors lack" in told.about()) is bool(refused)


@pytest.mark.parametrize("stamps", [True, False])
def test_that_a_broker_stamps_is_found_whatever_its_profile_claims(
    stamps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: Found(["ttl"], stamps=stamps))
    for words, seen in (("", stamps), ('capabilities = ["ttl"]', stamps),
                        ('capabilities = ["ttl", "jms-selectors"]', stamps),
                        ('profiles = ["jms"]\ncapabilities = ["ttl"]', False)):  # fmt: skip
        told = ProfileAdapter(parsed(f"[promises]\n{words}\n")).effective(programs()["equal-delays"]).broker
        assert (told.timestamping is not None) is seen


@pytest.mark.parametrize("dates", [True, False])
def test_to_a_broker_that_dates_messages_no_client_sends_a_timestamp(
    dates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves expirations as they are, so it does not stamp as ActiveMQ's plug-in does."""
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: Found(["ttl"], stamps=False, dates=dates))
    jms, java = 'profiles = ["jms"]\ncapabilities = ["ttl"]', 'capabilities = ["ttl", "jms-selectors"]'
    for words, seen in (("", dates), ('capabilities = ["ttl"]', dates), (java, dates), (jms, False)):
        told = ProfileAdapter(parsed(f'[names.stomp.headers]\ndelay = ""\n[promises]\n{words}\n'))
        access = told.access("stomp", None)
        assert access.names is not None
        assert access.names.headers == {"delay": ""} | ({"timestamp": ""} if seen else {})
        assert told.effective(programs()["equal-delays"]).broker.timestamping is None


@pytest.mark.parametrize("told", [True, False])
def test_what_arrives_cannot_show_is_not_judged(told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who claims that messages are persistent is held to it, also where no message says it of itself."""
    found = Found(["ttl", *(["persistent"] if told else [])], stamps=False, dates=not told)
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: found)
    words = '[promises]\nprofiles = ["core"]\ncapabilities = ["persistent", "ttl"]\n'
    adapter = ProfileAdapter(parsed(words))
    untold = {one.id: adapter.unpromised(one) for one in default_catalogue().judged()}
    assert {id_ for id_, why in untold.items() if "names.stomp.headers" in why} == (
        set() if told else {"GEN-131", "TSP-007"}
    )
    assert untold["GEN-080"] == ""
    assert adapter.effective(programs()["equal-delays"]).broker.timestamping is None
    said_it = ProfileAdapter(parsed('[promises]\nprofiles = ["core", "jms"]\ncapabilities = ["persistent"]\n'))
    assert not any("names.stomp.headers" in said_it.unpromised(one) for one in default_catalogue().judged())


def test_what_no_protocol_of_a_broker_can_show_is_not_judged() -> None:
    broker = 'name = "b"\n[endpoints]\nmqtt = { url = "mqtt://127.0.0.1:1" }\n'
    mqtt = ProfileAdapter(parsed('[promises]\nprofiles = ["core"]\ncapabilities = ["persistent"]\n', broker))
    catalogue = default_catalogue()
    assert mqtt.unpromised(catalogue["GEN-131"]) == "MQTT does not say how a message is to be kept"
    assert mqtt.unpromised(catalogue["GEN-103"]) == "neither JMS nor MQTT knows a rejection"
    assert mqtt.unpromised(catalogue["GEN-190"]) == "it is about STOMP, and no endpoint speaks that"
    assert mqtt.unpromised(catalogue["GEN-080"]) == ""


def test_promises_take_away_and_tables_add(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["nack", "dead-letter", "prefetch", "delay", "ttl"]
    more = '[names.stomp.headers]\ndelay = ""\n[promises]\nreject = "drop"\nprefetch = "ignored"\n'
    assert adapter(more, monkeypatch, found).capabilities() == ["ttl"]
    more += '[counters]\nkind = "command"\nmap = { size = "x", memory_percent = "y" }\n'
    assert adapter(more, monkeypatch, found).capabilities() == ["counters", "memory-counters", "ttl"]


def test_who_counts_early_is_held_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = '[counters]\nkind = "command"\nmap = { in_flight = "x" }\n'
    early = '[promises]\ngeneration = { in-flight = "assigned" }\n'
    assert "counts-when-assigned" in adapter(early + counters, monkeypatch, []).capabilities()
    assert "counts-when-assigned" not in adapter(counters, monkeypatch, []).capabilities()
    assert "counts-when-assigned" not in adapter(early, monkeypatch, []).capabilities()


def test_a_promised_window_is_that_of_who_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    told = adapter("[promises]\nprefetch = 20\n", monkeypatch, ["prefetch", "ttl"])
    assert (told.default_prefetch, told.capabilities()) == (20, ["default-prefetch", "prefetch", "ttl"])
    declared = DeclaredSpec(default_prefetch=told.default_prefetch)
    kind = {"topic": False, "durable": False}
    assert [window_of(declared, "q0", asked, **kind, browser=False) for asked in (UNASKED, 5, 1000)] == [20, 5, 1000]
    assert window_of(declared, "q0", UNASKED, **kind, browser=True) == 500
    declared = replace(declared, policies=[PolicySpec(queue_prefetch=5)])
    assert [window_of(declared, "q0", asked, **kind, browser=False) for asked in (UNASKED, 20, 1000)] == [5, 20, 1000]
    unlimited = adapter('[promises]\nprefetch = "unlimited"\n', monkeypatch, ["prefetch"])
    assert (unlimited.default_prefetch, unlimited.capabilities()) == (UNLIMITED, ["default-prefetch", "prefetch"])
    assert (
        window_of(DeclaredSpec(default_prefetch=UNLIMITED), "t0", UNASKED, topic=True, durable=False, browser=False)
        > 10**9
    )
    ignored = adapter('[promises]\nprefetch = "ignored"\n', monkeypatch, ["prefetch"])
    assert (ignored.default_prefetch, ignored.capabilities()) == (None, [])
    fixed = adapter("[promises]\nprefetch = 20\n", monkeypatch, ["ttl"])
    assert fixed.capabilities() == ["ttl"]  # nobody can ask for another one


def test_a_header_that_the_file_names_is_a_promise_whatever_a_probe_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a broker that breaks it would merely not offer it."""
    more = '[names.stomp.headers]\nexpiration = "expires"\ndelay = ""\n[promises]\nreject = "dead-letter"\n'
    told = adapter(more, monkeypatch, ["topics"])
    assert told.capabilities() == ["dead-letter", "nack", "topics", "ttl"]
    proof = _answers(told)
    assert (proof.line, proof.state) == ("names.stomp.headers.expiration", "wrong")
    assert adapter(more + "capabilities = []", monkeypatch, ["topics"]).capabilities() == []


def test_as_many_programs_of_the_corpus_run_at_once_as_the_profile_says(monkeypatch: pytest.MonkeyPatch) -> None:
    start = '[start]\ncommand = ["x"]\n'
    assert adapter(start + "lanes = 5", monkeypatch, ["ttl"]).workers == 5
    assert adapter(start, monkeypatch, ["ttl"]).workers == 3


def test_requirements_that_are_not_promised_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = default_catalogue()
    narrow = adapter('[promises]\nprofiles = ["core"]\nrequirements = ["-EXP-*", "EXP-001"]', monkeypatch, [])
    assert narrow.unpromised(catalogue["EXP-001"]) == ""
    assert "'-EXP-*'" in narrow.unpromised(catalogue["EXP-002"])
    plain = adapter("", monkeypatch, [])
    unmarked = adapter('[names.stomp.headers]\nredelivered = ""', monkeypatch, [])
    assert plain.unpromised(catalogue["RDL-002"]) == ""
    assert "redelivered" in unmarked.unpromised(catalogue["RDL-002"])


def test_who_can_be_told_how_often_to_look_for_what_has_expired_promises_to_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    swept = default_catalogue()["EXP-009"]
    for claims in ("", '[promises]\nprofiles = ["core"]\n'):
        plain = adapter(claims, monkeypatch, [])
        period = '[start]\ncommand = ["x", "{settings}"]\n[settings]\nexpire_period_ms = ["--sweep", "{value}"]\n'
        told = adapter(period + claims, monkeypatch, [])
        assert plain.unpromised(swept) or plain.unclaimed(swept)
        assert not told.unpromised(swept)
        assert not told.unclaimed(swept)


def test_whoever_says_nothing_of_profiles_claims_what_its_lines_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = default_catalogue()
    plain, said = adapter("", monkeypatch, []), adapter('[promises]\nreject = "dead-letter"', monkeypatch, [])
    assert [plain.unclaimed(catalogue[name]) for name in ("GEN-001", "INA-024")] == ["", ""]
    assert "[promises] profiles is missing" in plain.unclaimed(catalogue["INA-015"])
    assert plain.unclaimed(catalogue["EXP-005"])
    assert said.unclaimed(catalogue["EXP-005"]), "what is rejected is a dead letter, of what expires nothing is said"
    assert not said.unclaimed(catalogue["RDL-017"])
    own = [catalogue[name] for name in ("GEN-008", "GEN-023", "GEN-024", "GEN-047", "GEN-120", "GEN-121")]
    assert not any(map(plain.unclaimed, own)), "who claims groups, or exclusive consumers, claims what the word means"
    told = adapter('[promises]\nprofiles = ["core", "stomp-1.2", "amqp-1.0", "mqtt-5"]', monkeypatch, [])
    assert told.unclaimed(catalogue["INA-015"]) == ""
    assert "claims none" in told.unpromised(catalogue["INA-015"])


@pytest.mark.parametrize(
    ("claimed", "kept", "more", "state"),
    [
        ("dead-letter", False, "", "wrong"),
        ("dead-letter", False, 'reject = "dead-letter"', "wrong"),
        ("dead-letter", False, 'reject = "redeliver"', "not proven"),
        ("dead-letter", False, 'reject = "dead-letter"\nexpired = "elsewhere"', "not proven"),
        ("dead-letter", True, 'reject = "redeliver"', "ok"),
        ("persistent", False, "", "wrong"),
        ("persistent", False, '[start]\ncommand = ["x"]\nrestart = true', "not proven"),
        ("persistent", True, '[start]\ncommand = ["x"]\nrestart = true', "ok"),
    ],
)
def test_a_claim_is_wrong_only_where_its_probe_asks_for_what_is_claimed(
    claimed: str, kept: bool, more: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = adapter(f'[promises]\ncapabilities = ["{claimed}"]\n{more}', monkeypatch, [])
    seen = Found([claimed] if kept else [], stamps=False, asked=(claimed,))
    monkeypatch.setattr(found, "found", lambda: seen)
    assert _claims(found).state == state


def test_what_nobody_claims_counts_where_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = adapter("", monkeypatch, [])
    told = {kind: explained(plain, Verdict("INA-015", kind, text="so")) for kind in VerdictKind}
    assert told[VerdictKind.SATISFIED].verdict is VerdictKind.SATISFIED
    for kind in (VerdictKind.VIOLATED, VerdictKind.INCONCLUSIVE, VerdictKind.NOT_EXERCISED):
        assert told[kind].verdict is VerdictKind.NOT_APPLICABLE
    assert "it does otherwise: so" in told[VerdictKind.VIOLATED].text
    assert explained(plain, Verdict("GEN-001", VerdictKind.VIOLATED)).verdict is VerdictKind.VIOLATED


def test_a_program_is_cast_to_what_is_offered() -> None:
    program = next(one for one in programs().values() if any(isinstance(step, Nack) for step in one.steps))
    program = msgspec.structs.replace(program, steps=[*program.steps, Send(ttl_ms=5, delay_ms=7)])
    bare = cast(program, ["delay"], ["stomp"])
    assert not any(isinstance(step, Nack) for step in bare.steps)
    assert isinstance(bare.steps[-1], Send)
    assert (bare.steps[-1].ttl_ms, bare.steps[-1].delay_ms) == (0, 7)
    assert {host.via for host in bare.clients()} == {"stomp"}


@pytest.mark.parametrize(("words", "stamp"), [([], "none"), (["jms-semantics"], "zero")])
def test_only_jms_has_a_timestamp_of_zero_for_none(words: list[str], stamp: str) -> None:
    program = programs()["no-timestamp-but-a-life"]
    sent = [step for step in cast(program, ["ttl", *words], ["stomp"]).steps if isinstance(step, Send)]
    assert {step.stamp for step in sent} == {stamp}


def test_words_of_another_broker_go_out_and_come_back() -> None:
    names = WireNames(
        queue="/amq/{name}", dead_letters="/amq/dead", headers={"expiration": "ttl-at", "delay": "", "priority": "prio"}
    )
    dialect = Dialect(names)
    ours = Frame("SEND", {"destination": "/queue/q0.x", "expires": "7", "AMQ_SCHEDULED_DELAY": "9", "priority": "5"})
    theirs = Frame("SEND", {"destination": "/amq/q0.x", "ttl-at": "7", "prio": "5"})
    assert dialect.outgoing(ours) == theirs
    assert dialect.incoming(theirs).headers == {"destination": "/queue/q0.x", "expires": "7", "priority": "5"}
    assert dialect.address("/queue/ActiveMQ.DLQ") == "/amq/dead"
    wire = DialectFraming(dialect).encode(Frame("SUBSCRIBE", {"destination": "/queue/ActiveMQ.DLQ"}))
    assert b"destination:/amq/dead\n" in wire
    message = DialectFraming(dialect).feed(b"MESSAGE\ndestination:/amq/dead\n\n\0")[0]
    assert isinstance(message, Frame)
    assert message.headers["destination"] == "/queue/ActiveMQ.DLQ"


@pytest.mark.parametrize(
    ("header", "persistent", "other"),
    [
        ("durable", {"durable": "true"}, {}),
        ("durable: true | false", {"durable": "true"}, {"durable": "false"}),
        ("store: disk", {"store": "disk"}, {}),
        ("store: disk | memory", {"store": "disk"}, {"store": "memory"}),
        ("volatile: false|true", {"volatile": "false"}, {"volatile": "true"}),
        ("", {}, {}),
    ],
)
def test_a_header_has_values_of_its_own(header: str, persistent: dict[str, str], other: dict[str, str]) -> None:
    dialect = Dialect(WireNames(headers={"persistent": header}))
    assert dialect.outgoing(Frame("SEND", {"persistent": "true"})).headers == persistent
    assert dialect.outgoing(Frame("SEND", {})).headers == other
    assert dialect.outgoing(Frame("SUBSCRIBE", {"id": "1"})).headers == {"id": "1"}
    if header:
        assert dialect.incoming(Frame("MESSAGE", persistent)).headers == {"persistent": "true"}
    assert dialect.incoming(Frame("MESSAGE", other)).headers in ({}, {"persistent": "false"})


def test_one_header_counts_and_marks_what_comes_again() -> None:
    dialect = Dialect(WireNames(headers={"delivery_count": "attempt - 1", "redelivered": "attempt > 1"}))
    for attempt, count, again in (("1", "0", "false"), ("3", "2", "true"), ("0", "0", "false")):
        found = dialect.incoming(Frame("MESSAGE", {"attempt": attempt})).headers
        assert found == {"redeliveryCounter": count, "redelivered": again}
    assert dialect.incoming(Frame("MESSAGE", {"attempt": "one"})).headers == {}


def test_wildcards_and_rejections_have_words_of_their_own() -> None:
    dialect = Dialect(WireNames(topic="/feed/{name}", wildcards=("+", "#"), nack={"requeue": "false"}))
    assert dialect.address("/topic/a/*/b/>") == "/feed/a/+/b/#"
    assert dialect.outgoing(Frame("NACK", {"id": "7"})).headers == {"id": "7", "requeue": "false"}
    assert dialect.outgoing(Frame("ACK", {"id": "7"})).headers == {"id": "7"}
    ending = Dialect(WireNames(headers={"durable": "keep-as"}, unsubscribe={"forget": "true"}))
    plain = {"id": "d1"}
    named = {**plain, "activemq.subscriptionName": "d1"}
    assert ending.outgoing(Frame("UNSUBSCRIBE", named)).headers == {"id": "d1", "keep-as": "d1", "forget": "true"}
    assert ending.outgoing(Frame("UNSUBSCRIBE", plain)).headers == plain


@pytest.mark.parametrize(("words", "lacks"), [('["priorities"]', []), ('["ttl"]', ["prioritized_messages of >"])])
def test_priorities_that_need_no_setting(words: str, lacks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    told = adapter(f"[promises]\ncapabilities = {words}\n", monkeypatch, [])
    spec = BrokerSpec(policies=[PolicySpec(">", prioritized_messages=True)])
    assert told._settings.lacking(spec) == lacks


def test_browsers_may_have_other_words() -> None:
    dialect = Dialect(WireNames(headers={"browser": "peek", "browser_end": "peek-end"}))
    assert dialect.outgoing(Frame("SUBSCRIBE", {"browser": "true"})).headers == {"peek": "true"}
    assert dialect.incoming(Frame("MESSAGE", {"peek": "true"})).headers == {}
    assert dialect.incoming(Frame("MESSAGE", {"peek": "true", "peek-end": "true"})).headers == {"browser": "end"}
    last = Dialect(WireNames(headers={"browser_end": "peek: last"}))
    assert last.incoming(Frame("MESSAGE", {"peek": "last"})).headers == {"browser": "end"}
    assert last.incoming(Frame("MESSAGE", {"peek": "next"})).headers.get("browser") != "end"


@pytest.mark.parametrize(
    ("word", "header", "form"),
    [
        ("priority", "rank: high", "the name of a header"),
        ("delivery_count", "attempt - one", "'NAME' or 'NAME - 1'"),
        ("redelivered", "attempt - 1", "'NAME', 'NAME: YES' or 'NAME > 1'"),
        ("persistent", "store: disk | memory | tape", "'NAME', 'NAME: YES' or 'NAME: YES | NO'"),
    ],
)
def test_a_header_that_is_none_is_refused(word: str, header: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=re.escape(f"headers.{word}: {header!r} is no header; it must be {form}")):
        adapter(f'[names.stomp.headers]\n{word} = "{header}"\n', monkeypatch, [])


def test_a_durable_subscription_is_named_after_its_client_where_names_may_be_the_brokers_own() -> None:
    asked = Frame("SUBSCRIBE", {"destination": "/topic/t0", "activemq.subscriptionName": "d1"})
    named = Dialect(WireNames(headers={"durable": "durable"}), "run-c0").outgoing(asked)
    assert named.headers["durable"] == "run-c0.d1"
    assert Dialect(WireNames(), "run-c0").outgoing(asked) == asked


def test_a_client_id_may_have_another_header() -> None:
    dialect = Dialect(WireNames(headers={"client_id": "identity"}))
    asked = Frame("CONNECT", {"accept-version": "1.2", "client-id": "run-c0"})
    assert dialect.outgoing(asked).headers == {"accept-version": "1.2", "identity": "run-c0"}


def test_each_queue_may_have_dead_letters_of_its_own() -> None:
    dialect = Dialect(WireNames(dead_letters="/queue/DLQ.{name}"))
    for ours, theirs in (
        ("/queue/q0.x", "/queue/q0.x"),
        ("/queue/ActiveMQ.DLQ.Queue.q0.x", "/queue/DLQ.q0.x"),
        ("/queue/ActiveMQ.DLQ", "/queue/DLQ.none"),
    ):
        assert dialect.outgoing(Frame("SUBSCRIBE", {"destination": ours})).headers["destination"] == theirs
        assert dialect.incoming(Frame("MESSAGE", {"destination": theirs})).headers["destination"] == ours


def test_such_a_broker_needs_no_word_for_it_and_keeps_none_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    more = '[names.stomp]\ndead_letters = "/queue/DLQ.{name}"\n[promises]\nreject = "redeliver"\n'
    told = adapter(f'{more}capabilities = ["dead-letter", "nack", "topics", "ttl"]\n', monkeypatch, [])
    assert told.capabilities() == ["dead-letter", "requeue", "topics", "ttl"]
    program = told.cast(programs()["live-redelivery"])
    assert told.refusal(program) == ""
    broker = told.effective(program).broker
    dests = Destinations([Destination("q0", "queue"), Destination("t0", "topic")])
    assert own_dead_letter_queues(broker, dests) == ["ActiveMQ.DLQ.Queue.q0"]
    plain = adapter('[promises]\nreject = "redeliver"\n', monkeypatch, ["dead-letter", "nack"])
    assert plain.capabilities() == ["requeue"]
    shared = programs()["live-redelivery"]
    shared = replace(shared, broker=replace(shared.broker, policies=[PolicySpec(dead_letter=DeadLetterSpec())]))
    assert "dead_letter" in told.refusal(told.cast(shared))


def test_what_runs_alone_can_show_is_named() -> None:
    more = """
[names.stomp.headers]
priority = "rank"
delay = "later"
exclusive = ""
[settings]
memory_limit_bytes = []
timestamping = []
[start]
command = ["x", "{settings}"]
[operations]
purge = "http://127.0.0.1:1/{name}"
[promises]
reject = "redeliver"
redeliveries_max = 4
"""
    letters = '[names.stomp]\ndead_letters = "/queue/dead"\nunsubscribe = { forget = "true" }\n'
    assert _untried(parsed(letters).profile) == ["names.stomp.unsubscribe"]
    assert _untried(parsed(f'{letters}[promises]\nexpired = "elsewhere"\n').profile) == [
        "names.stomp.unsubscribe",
        "names.stomp.dead_letters",
        "promises.expired",
    ]
    assert _untried(parsed(more).profile) == [
        "names.stomp.headers.priority",
        "settings.memory_limit_bytes",
        "operations.purge",
        "promises.reject",
        "promises.redeliveries_max",
    ]
    assert _untried(parsed("").profile) == []


@pytest.mark.parametrize("letters", ["/queue/DLQ", "/queue/DLQ.{name}"])
def test_what_expires_may_be_no_dead_letter(letters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then what is rejected, or given up, must be one all the same."""
    more = f'[names.stomp]\ndead_letters = "{letters}"\n[promises]\nreject = "dead-letter"\nexpired = "elsewhere"\n'
    told = adapter(f'{more}capabilities = ["dead-letter", "nack", "topics", "ttl"]\n', monkeypatch, [])
    assert told.capabilities() == ["dead-letter", "nack", "topics", "ttl"]
    program = told.cast(programs()["live-redelivery"])
    assert told.refusal(program) == ""
    declared = told.effective(program).declared()
    of_queue, of_topic = Applied(declared, "q0", topic=False), Applied(declared, "t0", topic=True)
    assert not of_queue.keeps_dead_letter(persistent=True, expired=True)
    assert not of_topic.keeps_dead_letter(persistent=True, expired=True)
    assert of_queue.keeps_dead_letter(persistent=True, expired=False)
    found = Found(["nack"], stamps=False, asked=("nack", "dead-letter"))  # the probe lets a message expire
    monkeypatch.setattr(ProfileAdapter, "found", lambda _: found)
    answers = [_answers(ProfileAdapter(parsed(one))).state for one in (more, more.replace('expired = "elsewhere"', ""))]
    assert answers == ["ok", "wrong"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[names.stomp]\ndead_letters = "/queue/{name}"\n', "be no queue's own name"),
        ('[names.stomp]\ndead_letters = "/{name}/{name}"\n', "must hold {name} once"),
        ('[names.amqp]\ndead_letters = "DLQ.{name}"\n', "over STOMP only"),
    ],
)
def test_a_name_of_dead_letters_that_cannot_be(more: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parsed(more)


AMQP = 'name = "b"\n[endpoints]\namqp = { url = "amqp://127.0.0.1:1" }\n'


def test_names_of_another_protocol_are_its_own() -> None:
    located = parsed('[names.amqp]\nqueue = "q.{name}"\n[promises]\ncapabilities = []\n', AMQP)
    names = located.profile.names.amqp
    told = [names.address(dest) for dest in ("queue://a", "topic://a", "queue://ActiveMQ.DLQ")]
    assert told == ["q.a", "a", "DLQ"]


def test_without_stomp_nothing_is_probed_so_it_must_be_said() -> None:
    with pytest.raises(UsageError, match=r"promises.capabilities: without an endpoint stomp"):
        parsed("", AMQP)
    with pytest.raises(UsageError, match=r"endpoints.mqtt: it is missing"):
        ProfileAdapter(parsed("[promises]\ncapabilities = []\n", AMQP), "mqtt")


@pytest.mark.parametrize(("header", "lives"), [("", {(0, 1500)}), ("absolute-expiry-time", {(1500, 0), (0, 1500)})])
def test_a_life_is_counted_by_whoever_can(header: str, lives: set[tuple[int, int]]) -> None:
    more = f'[names.amqp]\nheaders = {{ expiration = "{header}" }}\n[promises]\ncapabilities = ["broker-ttl", "ttl"]\n'
    adapter = ProfileAdapter(parsed(more, AMQP))
    program = programs()["equal-delays"].with_steps([Send(host=0, dest=0, ttl_ms=1500)] * 2)
    found = [step for step in adapter.cast(program).steps if isinstance(step, Send)]
    assert {(step.ttl_ms, step.life_ms) for step in found} == lives


def test_a_life_is_of_whole_units() -> None:
    program = programs()["equal-delays"].with_steps([Send(host=0, dest=0, ttl_ms=1500)])
    (step,) = cast(program, ["broker-ttl", "ttl"], ["stomp"], stamps=False, life_unit_ms=1000).steps
    assert isinstance(step, Send)
    assert (step.ttl_ms, step.life_ms) == (0, 2000)


def test_where_there_are_no_queues_topics_are_played() -> None:
    profile = 'name = "b"\n[endpoints]\nmqtt = { url = "mqtt://127.0.0.1:1" }\n[promises]\ncapabilities = ["topics"]\n'
    adapter = ProfileAdapter(parsed("", profile))
    assert {one.kind for one in adapter.cast(programs()["equal-delays"]).destinations} == {"topic"}
    assert (adapter.library("stomp"), adapter.library("jms")) == ("mqtt", "mqtt")


def test_the_command_of_an_agent_is_filled() -> None:
    profile = 'name = "b"\n[endpoints]\nagent = { command = ["{python}", "{here}/a"], url = "x://127.0.0.1:7" }\n'
    adapter = ProfileAdapter(parsed("[promises]\ncapabilities = []\n", profile))
    assert adapter.words("stomp")[1] == "/nowhere/a"
    access = adapter.access("stomp", None)
    assert (access.url, access.port) == ("x://{host}:{port}", 7)


@pytest.mark.parametrize(
    ("restart", "reason"), [("true", ""), ('"stop"', "of what a kill leaves"), ("false", "persistent")]
)
def test_a_kill_is_played_where_it_leaves_what_is_persistent(
    restart: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = f'[start]\ncommand = ["x"]\nrestart = {restart}\n[promises]\ncapabilities = ["topics", "durables"]'
    refusal = adapter(more, monkeypatch, []).refusal(programs()["a-durable-ends-and-a-kill"])
    assert refusal.endswith(reason)
    assert bool(refusal) == bool(reason)


@pytest.mark.parametrize(("restart", "how"), [("true", "kill"), ('"stop"', "stop")])
def test_a_broker_is_ended_as_its_profile_says_that_it_may_be(restart: str, how: str) -> None:
    adapter = ProfileAdapter(parsed(f'[start]\ncommand = ["x"]\nrestart = {restart}'))
    launcher = Mock(spec=Launcher, process=Mock(), ports={})
    launcher.restart = lambda asked: Launcher.restart(launcher, asked)
    assert begun_again(adapter, launcher) == how
    assert [name for name, *_ in launcher.method_calls] == [how, "start"]


def test_a_first_profile_is_written_also_where_names_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("brokerproof.conformance.brokers.profiled.probe", Mock(side_effect=NameRefused("no such pool")))
    made = tmp_path / "made.toml"
    assert profile_command(["init", "stomp://127.0.0.1:61613", "--out", str(made)]) == OK
    assert "no such pool; say what its queues are called" in capsys.readouterr().err
    found = read_profile(made).profile
    assert (found.names.stomp.queue, found.promises.capabilities) == ("/queue/{name}", None)


def test_a_broker_is_ready_when_it_lets_in_whom_the_profile_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def line(access: Access) -> MagicMock:
        asked.append(access.login)
        if len(asked) == 1:
            raise ConnectionRefusedError
        if access.login == "wrong":
            raise ProbeError("the broker answers ERROR: who are you?")
        return MagicMock()

    def await_ready(probe: Callable[[], object], _: int) -> None:
        if not (probe() or probe()):
            raise NotReady("not ready after 60000 ms")

    monkeypatch.setattr(launching, "Line", line)
    launcher: Any = SimpleNamespace(process=SimpleNamespace(await_ready=await_ready))
    CommandLauncher._await_login(launcher, Access(port=1, login="app"))
    assert asked == ["app", "app"]
    asked.clear()
    with pytest.raises(NotReady, match=r"who are you\?; is it running, and are login and passcode right\?\nnot ready"):
        CommandLauncher._await_login(launcher, Access(port=1, login="wrong"))


@pytest.mark.parametrize(
    ("line", "shows"),
    [
        (
            "[names.stomp]\nheaders = { delay = '', group = { name = 'g' } }",
            "names.stomp.headers.group: Expected `str`, got",
        ),
        ("[counters]\nkind = 'http'\nmap = { size = 3 }", "counters.map.size: Expected `str`, got `int` (it is 3)"),
        ("[settings]\nredelivery = 3", "settings.redelivery: Expected `array`, got `int` (it is 3)"),
    ],
)
def test_an_entry_of_a_table_that_is_wrong_is_named(line: str, shows: str) -> None:
    text = (
        f'format = "brokerproof/broker/1"\nname = "x"\n[endpoints]\nstomp = {{ url = "stomp://127.0.0.1:1" }}\n{line}\n'
    )
    with pytest.raises(UsageError, match=re.escape(shows)):
        parse_profile(text, "x.toml", Path())
