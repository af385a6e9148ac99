"""chaos/brokers/jars.py and debian.py: which files make a class path; nothing is downloaded here."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from brokerproof.chaos import tools
from brokerproof.chaos.brokers import debian, jars
from brokerproof.chaos.brokers.jars import NotAHome, UnknownRelease

HOME_JARS = (
    "activemq-broker-5.18.3.jar",
    "activemq-client-5.18.3.jar",
    "slf4j-api-2.0.9.jar",
    "jcl-over-slf4j-2.0.9.jar",
    "optional/log4j-core-2.20.0.jar",
    "optional/log4j-slf4j2-impl-2.20.0.jar",
    "optional/slf4j-reload4j-2.0.9.jar",
    "optional/insight-log4j-1.2.jar",
    "optional/activemq-spring-5.18.3.jar",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ActiveMQ home with the names that count, on a machine without Maven."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    for name in HOME_JARS:
        path = tmp_path / "home" / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "home" / "lib" / "dangling.jar").symlink_to("/nowhere.jar")
    return tmp_path / "home"


def test_a_home_gives_its_jars_without_logging_back_ends_and_without_dangling_links(home: Path) -> None:
    found = jars.obtain(home=home)
    assert found.version == "5.18.3"
    assert found.origin == "home folder"
    assert sorted(jar.name for jar in found.class_path) == [
        "activemq-broker-5.18.3.jar",
        "activemq-client-5.18.3.jar",
        "activemq-spring-5.18.3.jar",
        "jcl-over-slf4j-2.0.9.jar",
        "slf4j-api-2.0.9.jar",
    ]


def test_a_home_takes_the_back_end_that_fits_its_slf4j(home: Path) -> None:
    back_end = tools.cache_folder("jars") / "slf4j-jdk14-2.0.16.jar"  # what 5.18.3 was tried with
    back_end.touch()
    assert back_end in jars.obtain(home=home).class_path


def test_a_folder_that_is_no_home_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotAHome, match="has no folder lib") as caught:
        jars.obtain(home=tmp_path)
    assert str(tmp_path) in str(caught.value)
    (tmp_path / "lib").mkdir()
    with pytest.raises(NotAHome, match="no activemq-broker jar"):
        jars.obtain(home=tmp_path)


def test_an_unknown_release_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UnknownRelease, match=r"'5\.19\.0' is not known; known: 5\.8\.0, 5\.9\.1, 5\.12\.3") as caught:
        jars.obtain("5.19.0")
    assert "6.3.1" in str(caught.value)


def test_a_debian_folder_says_its_release_and_what_it_lacks(tmp_path: Path) -> None:
    assert "activemq-broker" in debian.missing_jars(tmp_path)
    for name in debian.BROKER_JARS:
        (tmp_path / f"{name}.jar").touch()
    assert debian.missing_jars(tmp_path) == []
    (tmp_path / "activemq-broker-5.17.2.jar").symlink_to("activemq-broker.jar")
    assert debian.release(tmp_path) == "5.17.2"
    (tmp_path / "xstream.jar").unlink()  # only the statistics over STOMP need it
    assert debian.missing_jars(tmp_path) == []
    (tmp_path / "xbean-spring.jar").unlink()
    (tmp_path / "xbean-spring.jar").symlink_to("gone.jar")
    assert debian.missing_jars(tmp_path) == ["xbean-spring"]


def test_an_assembled_release_is_a_project_with_its_own_spring() -> None:
    project = ET.fromstring(jars._project("6.3.1"))  # noqa: S314  # our own text
    space = "{http://maven.apache.org/POM/4.0.0}"
    found = {
        str(dependency.findtext(f"{space}artifactId")): dependency.findtext(f"{space}version")
        for dependency in project.iter(f"{space}dependency")
    }
    assert found["activemq-broker"] == found["activemq-stomp"] == "6.3.1"
    assert found["spring-context"] == "6.2.18"
