"""Names of destinations, times and ratios in a configuration: what could never work, or would fail later, is refused
with its value and the remedy.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerproof.reference_broker.core.config import BrokerRedelivery, ConfigError, DestinationPolicy
from brokerproof.reference_broker.core.delay import MAX_DELAY_MS
from brokerproof.reference_broker.core.events import POISON
from brokerproof.reference_broker.settings.configuration import read_settings
from tests.fast.reference_broker.core.driver import Driver, config_of

ENTRY = '[[broker.destinations]]\nmatch = "A"\n'
DEAD_LETTERS = f"{ENTRY}[broker.destinations.dead_letter]\n"
COMPOSITE = "[[broker.composite_destinations]]\n"


def refused(tmp_path: Path, text: str) -> str:
    """The one line with which the file is refused."""
    path = tmp_path / "broker.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as found:
        read_settings(path)
    return str(found.value).removeprefix(f"{path}: broker")


@pytest.mark.parametrize("match", ["queue://", "A,B", "/queue/A", "/topic/A.>", "Queue://A", "jms://A", "A\\nB"])
def test_an_entry_that_covers_nothing(tmp_path: Path, match: str) -> None:
    text = refused(tmp_path, f'[[broker.destinations]]\nmatch = "{match}"')
    shown = match.encode().decode("unicode_escape")
    assert text == (
        f".destinations[0].match = {shown!r} names no destination; write a name such as 'A.B', a pattern such as "
        "'A.>', or either after queue:// or topic://"
    )


@pytest.mark.parametrize(("table", "key"), [("destinations", "match"), ("virtual_topics", "name")])
def test_the_rest_of_a_name_is_at_its_end(tmp_path: Path, table: str, key: str) -> None:
    text = refused(tmp_path, f'[[broker.{table}]]\n{key} = "A.>.B"')
    assert text.endswith("'A.>.B' has '>' before its end; use '*' for one element")


@pytest.mark.parametrize(
    "match", ["A", "*", ">", "A.*.>", "queue://A", "topic://>", "temp-queue://>", "/orders", "a b"]
)
def test_usual_matches(tmp_path: Path, match: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(f'[[broker.destinations]]\nmatch = "{match}"')
    assert read_settings(path).broker.destinations[0].match == match


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('dead_letter_queue = "queue://D"', ".dead_letter: 'queue://D' has a prefix of its own; write the name alone"),
        ('dead_letter_queue = "D.>"', "wildcard destination 'queue://D.>' is for consumers; name one destination"),
        ('dead_letter_queue = "D,E"', "destination 'queue://D,E' is not usable; write queue://NAME or topic://NAME"),
        ('queue_prefix = "queue://D."', "'queue://D.' has a prefix of its own; write the name alone"),
        ('topic_prefix = "*."', "wildcard destination 'queue://*.NAME' is for consumers; name one destination"),
        ('queue_suffix = ","', "destination 'queue://ActiveMQ.DLQ.Queue.NAME,' is not usable"),
    ],
)
def test_dead_letters_that_nobody_could_get(tmp_path: Path, text: str, message: str) -> None:
    assert message in refused(tmp_path, DEAD_LETTERS + text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "A,B"', "virtual topic 'A,B' is not usable"),
        ('prefix = "a,b."', "prefix 'a,b.' is not usable"),
        ('postfix = ".a,b"', "postfix '.a,b' is not usable"),
    ],
)
def test_virtual_topics_that_no_name_fits(tmp_path: Path, text: str, message: str) -> None:
    assert message in refused(tmp_path, f"[[broker.virtual_topics]]\n{text}")


def test_a_composite_destination_is_described_once(tmp_path: Path) -> None:
    one = f'{COMPOSITE}name = "queue://A"\nforward_to = ["queue://B"]\n'
    assert refused(tmp_path, one + one) == (
        ": composite destination queue://A is described twice; write all that it forwards to into one forward_to"
    )


@pytest.mark.parametrize("targets", [["queue://A"], ["queue://B"]])
def test_what_is_forwarded_in_a_circle_would_vanish(tmp_path: Path, targets: list[str]) -> None:
    text = f'{COMPOSITE}name = "queue://A"\nforward_to = {targets}\n'
    text += f'{COMPOSITE}name = "queue://B"\nforward_to = ["queue://A"]\n' if targets == ["queue://B"] else ""
    assert refused(tmp_path, text) == (
        f": composite destination queue://A forwards in a circle ({', '.join(targets)}) and keeps nothing; "
        "name another destination, or say forward_only = false"
    )


@pytest.mark.parametrize("value", ["inf", "nan", "1e300", "-2"])
@pytest.mark.parametrize(
    ("where", "key"), [(ENTRY, "pending_message_limit_multiplier"), ("[broker.monitor]\n", "heart_beat_grace")]
)
def test_a_ratio_is_a_number_that_can_be_multiplied(tmp_path: Path, where: str, key: str, value: str) -> None:
    assert refused(tmp_path, f"{where}{key} = {value}").endswith("must be a number from 0 to 1000000000, or -1")


@pytest.mark.parametrize(
    ("where", "key"),
    [
        ("[broker]\n", "max_delay_ms"),
        (f"{ENTRY}[broker.destinations.redelivery]\n", "initial_redelivery_delay_ms"),
        (f"{ENTRY}[broker.destinations.redelivery]\n", "redelivery_delay_ms"),
        (f"{ENTRY}[broker.destinations.redelivery]\n", "maximum_redelivery_delay_ms"),
        (DEAD_LETTERS, "expiration_ms"),
    ],
)
def test_times_end_before_the_calendar_does(tmp_path: Path, where: str, key: str) -> None:
    """Later the sum of such a value and the time of day would fit into nothing that is stored or sent."""
    assert f"{key} = 9223372036854775807 must be an integer from" in refused(
        tmp_path, f"{where}{key} = 9223372036854775807"
    )


def test_a_pause_that_grows_without_end_stays_a_delay() -> None:
    redelivery = BrokerRedelivery(
        maximum_redeliveries=-1,
        initial_redelivery_delay_ms=MAX_DELAY_MS,
        use_exponential_back_off=True,
        back_off_multiplier=1000,
    )
    d = Driver(config_of(destinations=[DestinationPolicy(">", redelivery=redelivery)]))
    d.subscribe()
    d.send()
    for _ in range(3):
        d.ack("m1", kind=POISON)
        d.advance(MAX_DELAY_MS)
    assert d.got() == ["m1"] * 4
