"""The configuration file and the command line of ``serve``: what is good is used, what is bad gets one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.reference_broker.core.config import (
    AdvisoryOptions,
    BrokerConfig,
    BrokerRedelivery,
    ConfigError,
    DeadLetterStrategy,
    DestinationPolicy,
)
from brokerproof.reference_broker.core.retention import Recovery
from brokerproof.reference_broker.server import serve
from brokerproof.reference_broker.settings import configuration as settings_module
from brokerproof.reference_broker.settings.configuration import ServerSettings, broker_config, read_settings
from brokerproof.reference_broker.settings.listen_address import ListenAddress

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what must be refused
DOCUMENT = Path(__file__).parents[4] / "docs" / "configuration.md"


def flat(thing: object) -> object:
    """A settings object as nested plain data, for comparing."""
    if isinstance(thing, list):
        return [flat(item) for item in thing]
    kind = type(thing)
    names = None if issubclass(kind, Path) else getattr(kind, "__struct_fields__", getattr(kind, "__slots__", None))
    return thing if names is None else {name: flat(getattr(thing, name)) for name in names}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    return path


def test_every_key_is_used(tmp_path: Path) -> None:
    settings = read_settings(
        written(
            tmp_path,
            """
            [server]
            host = "::1"
            port = 0
            admin_port = 7
            management_port = 8
            event_loop = "asyncio"
            [server.tls]
            certificate = "c.pem"
            key = "k.pem"
            client_authorities = "a.pem"
            port = 9
            [limits]
            max_connections = 20
            max_messages_per_second = 21
            max_idle_ms = 22
            [security]
            anonymous_access_allowed = true
            management_groups = ["m"]
            [stomp]
            max_headers = 3
            max_header_bytes = 128
            max_body_bytes = 9
            [openwire]
            max_frame_bytes = 999
            tight_encoding = false
            cache_size = 101
            [storage]
            path = "/data"
            max_bytes = 99
            [broker]
            name = "bb"
            memory_limit_bytes = 1
            memory_high_water_percent = 50
            page_size = 2
            store_limit_bytes = 16
            temp_limit_bytes = 17
            send_fail_if_no_space = true
            send_fail_if_no_space_after_ms = 18
            concurrent_store = true
            wake_on_relief = true
            dead_letter_non_persistent = true
            enable_message_expiration_on_active_durable_subs = true
            advisory_support = true
            statistics = true
            delay_support = false
            max_delay_ms = 7
            redeliveries_max = 8
            transacted_nacks = true
            mqsc = ["ALTER QMGR DEADQ(D)"]
            relative_ttl_names = ["ttl"]
            persistent = true
            [broker.generation]
            monitor = "classic"
            expiry = "documented"
            timestamping = "classic"
            memory = "G1"
            purge = "zeroed"
            delay = "ibm-mq"
            [broker.timestamping]
            future_only = true
            ttl_ceiling_ms = 10
            zero_expiration_override_ms = 20
            process_network_messages = true
            restamp_moved = true
            [broker.monitor]
            read_ms = -1
            initial_delay_ms = 3
            use_keep_alive = false
            use_monitor = false
            ask_for_answers = true
            ignore_remote = true
read_timeout_ms = 8
write_timeout_ms = 9
heart_beat_grace = 1.5
default_heart_beat = "7,8"
            connect_timeout_ms = 0
            [[broker.destinations]]
            match = "A.>"
            expire_period_ms = 0
            memory_limit_bytes = 5
            high_water_percent = 6
            max_page_size = 7
            max_browse_page_size = 8
            max_expire_page_size = 9
            minimum_message_bytes = 10
            use_cache = false
            lazy_dispatch = true
            producer_flow_control = false
            send_fail_if_no_space = true
            send_fail_if_no_space_after_ms = 11
            store_high_water_percent = 19
            prioritized_messages = true
            queue_prefetch = 12
            queue_browser_prefetch = 13
            topic_prefetch = 14
            durable_topic_prefetch = 15
            use_prefetch_extension = false
            pending_message_limit_multiplier = 0.5
            [broker.destinations.recovery]
            policy = "timed"
            maximum_messages = 20
            maximum_bytes = 21
            duration_ms = 22
            [broker.destinations.advisories]
            expired = true
            dead_letters = true
            include_body = true
            [broker.destinations.redelivery]
            maximum_redeliveries = -1
            initial_redelivery_delay_ms = 1
            redelivery_delay_ms = 2
            maximum_redelivery_delay_ms = 3
            use_exponential_back_off = true
            back_off_multiplier = 4
            send_to_dlq_if_max_retries_exceeded = false
            [broker.destinations.dead_letter]
            strategy = "individual"
            process_expired = false
            process_non_persistent = true
            expiration_ms = 6
            enable_audit = false
            dead_letter_queue = "dead"
            queue_prefix = "dead.queue."
            topic_prefix = "dead.topic."
            queue_suffix = ".q"
            topic_suffix = ".t"
            use_queue_for_queue_messages = false
            use_queue_for_topic_messages = false
            destination_per_durable_subscriber = true
            [[broker.virtual_topics]]
            name = "V.>"
            prefix = "C.*."
            postfix = ".x"
            [[broker.composite_destinations]]
            name = "queue://O"
            forward_to = ["queue://A", "topic://B"]
            forward_only = false
            """,
        )
    )
    assert flat(settings) == {
        "listen_addresses": [
            flat(ListenAddress("auto", "::1", 0)),
            flat(ListenAddress("auto", "::1", 9, secure=True)),
        ],
        "certificates": {"certificate": Path("c.pem"), "key": Path("k.pem"), "authorities": Path("a.pem")},
        "event_loop": "asyncio",
        "max_connections": 20,
        "max_messages_per_second": 21,
        "max_idle_ms": 22,
        "security": {
            "logins": [],
            "anonymous": {"user": "anonymous", "groups": {"anonymous"}},
            "permissions": None,
            "temporary": None,
            "management_groups": {"m"},
        },
        "notes": [],
        "admin_port": 7,
        "management_port": 8,
        "data": Path("/data"),
        "storage_max_bytes": 99,
        "limits": {
            "max_headers": 3,
            "max_header_bytes": 128,
            "max_body_bytes": 9,
            "max_frame_bytes": 999,
            "tight_encoding": False,
            "cache_size": 101,
        },
        "broker": {
            "name": "bb",
            "memory_limit_bytes": 1,
            "memory_high_water_percent": 50,
            "page_size": 2,
            "store_limit_bytes": 16,
            "temp_limit_bytes": 17,
            "send_fail_if_no_space": True,
            "send_fail_if_no_space_after_ms": 18,
            "concurrent_store": True,
            "wake_on_relief": True,
            "dead_letter_non_persistent": True,
            "enable_message_expiration_on_active_durable_subs": True,
            "advisory_support": True,
            "statistics": True,
            "delay_support": False,
            "max_delay_ms": 7,
            "redeliveries_max": 8,
            "transacted_nacks": True,
            "mqsc": ["ALTER QMGR DEADQ(D)"],
            "relative_ttl_names": ["ttl"],
            "persistent": True,
            "generation": {
                "monitor": "classic",
                "expiry": "documented",
                "timestamping": "classic",
                "memory": "G1",
                "purge": "zeroed",
                "in-flight": "exact",
                "delay": "ibm-mq",
            },
            "timestamping": {
                "future_only": True,
                "ttl_ceiling_ms": 10,
                "zero_expiration_override_ms": 20,
                "process_network_messages": True,
                "restamp_moved": True,
            },
            "monitor": {
                "read_ms": -1,
                "initial_delay_ms": 3,
                "use_keep_alive": False,
                "connect_timeout_ms": 0,
                "use_monitor": False,
                "ask_for_answers": True,
                "ignore_remote": True,
                "read_timeout_ms": 8,
                "write_timeout_ms": 9,
                "heart_beat_grace": 1.5,
                "default_heart_beat": "7,8",
            },
            "destinations": [
                {
                    "match": "A.>",
                    "expire_period_ms": 0,
                    "memory_limit_bytes": 5,
                    "high_water_percent": 6,
                    "max_page_size": 7,
                    "max_browse_page_size": 8,
                    "max_expire_page_size": 9,
                    "minimum_message_bytes": 10,
                    "use_cache": False,
                    "lazy_dispatch": True,
                    "producer_flow_control": False,
                    "send_fail_if_no_space": True,
                    "send_fail_if_no_space_after_ms": 11,
                    "store_high_water_percent": 19,
                    "prioritized_messages": True,
                    "queue_prefetch": 12,
                    "queue_browser_prefetch": 13,
                    "topic_prefetch": 14,
                    "durable_topic_prefetch": 15,
                    "use_prefetch_extension": False,
                    "advisories": {"expired": True, "dead_letters": True, "include_body": True},
                    "redelivery": {
                        "maximum_redeliveries": -1,
                        "initial_redelivery_delay_ms": 1,
                        "redelivery_delay_ms": 2,
                        "maximum_redelivery_delay_ms": 3,
                        "use_exponential_back_off": True,
                        "back_off_multiplier": 4,
                        "send_to_dlq_if_max_retries_exceeded": False,
                    },
                    "dead_letter": {
                        "strategy": "individual",
                        "process_expired": False,
                        "process_non_persistent": True,
                        "expiration_ms": 6,
                        "enable_audit": False,
                        "dead_letter_queue": "dead",
                        "queue_prefix": "dead.queue.",
                        "topic_prefix": "dead.topic.",
                        "queue_suffix": ".q",
                        "topic_suffix": ".t",
                        "use_queue_for_queue_messages": False,
                        "use_queue_for_topic_messages": False,
                        "destination_per_durable_subscriber": True,
                    },
                    "pending_message_limit": -1,
                    "pending_message_limit_multiplier": 0.5,
                    "recovery": {
                        "policy": "timed",
                        "maximum_messages": 20,
                        "maximum_bytes": 21,
                        "duration_ms": 22,
                    },
                }
            ],
            "virtual_topics": [{"name": "V.>", "prefix": "C.*.", "postfix": ".x"}],
            "composite_destinations": [
                {"name": "queue://O", "forward_to": ["queue://A", "topic://B"], "forward_only": False}
            ],
        },
    }


def test_a_connector_says_where_and_how(tmp_path: Path) -> None:
    uri = "stomp://[::1]:7?wireFormat.maxFrameSize=9&amp;transport.connectAttemptTimeout=70"
    settings = read_settings(written(tmp_path, f"[server]\nconnector = '{uri}'"))
    (listening,) = settings.listen_addresses
    assert (listening.protocol, listening.host, listening.port, listening.secure) == ("stomp", "::1", 7, False)
    assert listening.limits is not None
    assert (listening.limits.max_body_bytes, listening.limits.max_frame_bytes) == (9, 9)
    assert settings.limits.max_body_bytes > 9, "the limits of other ports stay"
    assert settings.broker.monitor.connect_timeout_ms == 70
    with pytest.raises(ConfigError, match=r"server\.port = 7 says again what connector says"):
        read_settings(written(tmp_path, f"[server]\nconnector = '{uri}'\nport = 7"))


def test_several_connectors_open_several_ports_with_one_monitor(tmp_path: Path) -> None:
    text = """
    [server]
    connectors = ["tcp://127.0.0.1:1?maximumConnections=3", "stomp+nio+ssl://localhost:2"]
    [server.tls]
    certificate = "c.pem"
    """
    first, second = read_settings(written(tmp_path, text)).listen_addresses
    assert (first.protocol, first.port, first.secure, first.max_connections) == ("openwire", 1, False, 3)
    assert (second.protocol, second.host, second.port, second.secure) == ("stomp", "127.0.0.1", 2, True)
    assert first.schemes(["stomp", "openwire"]) + second.schemes(["stomp", "openwire"]) == ["tcp", "stomp+ssl"]
    with pytest.raises(ConfigError, match=r"sets connect_timeout_ms to 7 and 'tcp://127\.0\.0\.1:1' to 30000"):
        ServerSettings().listen_on(["tcp://127.0.0.1:1", "auto://127.0.0.1:2?transport.connectAttemptTimeout=7"])


def test_users_open_the_way_beyond_loopback_and_the_admin_port_stays_at_home(tmp_path: Path) -> None:
    user = "[[security.users]]\nname = 'a'\npassword = 'b'\n"
    settings = read_settings(written(tmp_path, f"[server]\nhost = '0.0.0.0'\n{user}"))
    settings.check()
    assert settings.notes == ["auto://0.0.0.0:61613: passwords cross the network as clear text; serve TLS"]
    assert (settings.admin_host, settings.management_host) == ("127.0.0.1", EVERYWHERE)
    anybody = "[security]\nanonymous_access_allowed = true"
    settings = read_settings(written(tmp_path, f"[server]\nhost = '0.0.0.0'\n{anybody}"))
    settings.check()
    assert settings.notes == ["auto://0.0.0.0:61613: whoever reaches it may come in as 'anonymous'"]
    assert (settings.admin_host, settings.management_host) == ("127.0.0.1", "127.0.0.1")


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    assert flat(read_settings(written(tmp_path, ""))) == flat(ServerSettings())


def test_the_example_in_the_document_shows_every_key_with_its_default(tmp_path: Path) -> None:
    """The admin port, the time-stamping plug-in, redelivery and a dead-letter strategy are shown although they are
    absent by default.
    """
    example = DOCUMENT.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    settings = read_settings(written(tmp_path, example))
    assert (settings.admin_port, settings.management_port) == (0, 8161)
    assert settings.broker.timestamping is not None
    assert flat(settings.broker.destinations[0].dead_letter) == flat(DeadLetterStrategy())
    entry = settings.broker.destinations[0]
    assert flat(entry.redelivery) == flat(BrokerRedelivery())
    assert flat(entry.advisories) == flat(AdvisoryOptions())
    assert (entry.send_fail_if_no_space, entry.send_fail_if_no_space_after_ms) == (False, 0)
    entry.send_fail_if_no_space = entry.send_fail_if_no_space_after_ms = None  # absent: as the broker's, the same
    assert flat(entry.recovery) == flat(Recovery("fixed-count"))
    entry.dead_letter = entry.redelivery = entry.advisories = entry.recovery = None
    settings.admin_port = settings.management_port = settings.broker.timestamping = None
    assert flat(settings) == flat(ServerSettings())
    shown = {line.split("=")[0].strip() for line in example.splitlines() if "=" in line.split("#")[0]}
    tables = {
        "timestamping",
        "monitor",
        "generation",
        "destinations",
        "connector",
        "connectors",
        "tls",
        "dead_letter",
        "redelivery",
        "recovery",
        "advisories",
    }
    tables |= {"virtual_topics", "composite_destinations", "advisories"}
    for rows in (
        "_SERVER",
        "_LIMITS",
        "_OPENWIRE",
        "_STOMP",
        "_BROKER",
        "_TIMESTAMPING",
        "_MONITOR",
        "_DESTINATION",
        "_DEAD_LETTER",
        "_REDELIVERY",
        "_RECOVERY",
    ):
        assert set(getattr(settings_module, rows)) - tables <= shown
    assert set(settings_module._VIRTUAL_TOPIC) <= shown


BAD = [
    (
        "[[broker.destinations]]\nmatch = 'A'\nrecovery.policy = 'forever'",
        "broker.destinations[0].recovery: recovery policy 'forever' is unknown; one of last-image, ",
    ),
    (
        "[[broker.destinations]]\nmatch = 'A'\nrecovery.maximum_messages = 5",
        "broker.destinations[0].recovery has no policy; one of last-image, ",
    ),
    (
        "[[broker.destinations]]\nmatch = 'A'\npending_message_limit = 1\npending_message_limit_multiplier = 2",
        "broker.destinations[0]: A has pending_message_limit 1 and pending_message_limit_multiplier 2; choose one",
    ),
    (
        "[[broker.destinations]]\nmatch = 'A'\npending_message_limit_multiplier = -2",
        "pending_message_limit_multiplier = -2 must be a number from 0 to 1000000000, or -1",
    ),
    ("[[broker.virtual_topics]]\nprefix = 'C'", "prefix 'C' is not usable; end it with '.'"),
    ("[[broker.virtual_topics]]\npostfix = 'x'", "postfix 'x' is not usable; begin it with '.'"),
    ("[[broker.virtual_topics]]\nname = 'queue://V'", "virtual topic 'queue://V' is not usable"),
    ("[broker]\nvirtual_topics = [1]", "broker.virtual_topics[0] = 1 must be a table"),
    ("[broker]\ncomposite_destinations = [1]", "broker.composite_destinations[0] = 1 must be a table"),
    ("[[broker.composite_destinations]]\nforward_to = ['queue://A']", "has no name; name the destination"),
    ("[[broker.composite_destinations]]\nname = 'queue://O'", "queue://O forwards to nothing"),
    (
        "[[broker.composite_destinations]]\nname = 'queue://O'\nforward_to = ['A']",
        "broker.composite_destinations[0]: 'A' is not usable; write queue://NAME",
    ),
    ("[server]\nport = 70000", "server.port = 70000 must be an integer from 0 to 65535"),
    ("[server]\nport = true", "server.port = True must be an integer"),
    ("[server]\nport = '1'", "server.port = '1' must be an integer"),
    ("[server]\nhost = ''", "server.host = '' must be a text that is not empty"),
    ("[sever]\nport = 1", "sever is unknown; did you mean server?"),
    ("[server]\nxyz = 1", "server: xyz is unknown; one of host, port, admin_port"),
    ("server = 1", "server = 1 must be a table"),
    ("[stomp]\nmax_headers = 0", "stomp.max_headers = 0 must be an integer of at least 1"),
    ("[broker]\nmemory_limit_bytes = 1.5", "broker.memory_limit_bytes = 1.5 must be an integer of at least 0"),
    ("[broker]\nmemory_high_water_percent = 101", "must be an integer from 1 to 100"),
    ("[broker]\nmemory_limit_byte = 1", "memory_limit_byte is unknown; did you mean memory_limit_bytes?"),
    (
        "[broker.generation]\nmonitor = 'new'",
        "broker: generation 'new' of area 'monitor' is unknown; one of documented",
    ),
    ("[broker.generation]\ncolour = 'red'", "generation area 'colour' is unknown"),
    ("[broker.timestamping]\nfuture_only = 1", "broker.timestamping.future_only = 1 must be true or false"),
    (
        "[broker.monitor]\ninitial_delay_ms = -1",
        "broker.monitor.initial_delay_ms = -1 must be an integer of at least 0",
    ),
    (
        "[[broker.destinations]]\nmatch = 'a'\ndead_letter.strategy = 'burn'",
        "broker.destinations[0].dead_letter: dead-letter strategy 'burn' is unknown; one of shared",
    ),
    ("[[broker.destinations]]\nexpire_period_ms = 1", "broker.destinations[0] has no match"),
    ("[broker]\ndestinations = [1]", "broker.destinations[0] = 1 must be a table"),
    ("[broker]\ndestinations = 1", "broker.destinations = 1 must be a list of tables"),
    ("port = ", "is not TOML"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_files_are_refused_with_value_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_settings(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="; give the path of a TOML file"):
        read_settings(tmp_path / "nothing.toml")
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# \xff")
    with pytest.raises(ConfigError, match="is not TOML"):
        read_settings(path)


def test_the_broker_object_of_a_program_is_the_same_thing() -> None:
    data = {
        "generation": {"memory": "G1"},
        "timestamping": {"future_only": True, "ttl_ceiling_ms": 0, "zero_expiration_override_ms": 0},
        "memory_limit_bytes": 1048576,
        "destinations": [{"match": ">", "expire_period_ms": 1000, "memory_limit_bytes": None}],
    }
    config = broker_config(data)
    assert config.timestamping is not None
    assert config.timestamping.future_only
    assert config.generation["memory"] == "G1"
    assert flat(config.destinations) == flat([DestinationPolicy(">", expire_period_ms=1000)])
    assert flat(broker_config({})) == flat(BrokerConfig())


# -- the command line, as far as it goes without opening a port


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--host", "192.0.2.1"], "host '192.0.2.1' is not a loopback address, and nobody is asked who he is; name"),
        (["--host", EVERYWHERE], "name users in [security], or set security.anonymous_access_allowed = true"),
        (["--host", "example"], "host 'example' is not a loopback address"),
        (["--connector", "ssl://127.0.0.1:0"], "openwire+ssl://127.0.0.1:0 needs a certificate; name PEM files with"),
        (["--tls-port", "0"], "auto+ssl://127.0.0.1:0 needs a certificate"),
        (["--key", "k.pem"], "--key k.pem belongs to a certificate; name it with --certificate"),
        (["--tls-port", "0", "--certificate", "no.pem"], "no.pem cannot be used for TLS"),
        (["--config", "nothing.toml"], "nothing.toml cannot be read"),
        (["--connector", "amqp://127.0.0.1:1"], "has the scheme 'amqp'; use one of"),
        (["--connector", "stomp://127.0.0.1", "--port", "1"], "says host and port already"),
    ],
)
def test_bad_settings_exit_with_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve.main(argv) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--port", "70000"], "'70000' is not a port; use 0 (a free one) to 65535"),
        (["--port", "-1"], "'-1' is not a port"),
        (["--admin-port", "x"], "'x' is not a port"),
        (["--log-level", "LOUD"], "LOUD"),
        (["--unknown"], "unrecognized arguments: --unknown"),
    ],
)
def test_bad_usage_exits_with_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        serve.main(argv)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
