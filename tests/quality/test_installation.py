"""Installed, there is one import name. A user's own ``chaos``, ``conformance``, ``reports`` and ``reference_broker``,
in site-packages and in the current folder, stay the user's, and nothing of ours takes them for ours.

Each way to install gets a virtual environment of its own: the wheel, a wheel built from the sdist, the checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guards.tree import PACKAGES, ROOT
from tests.tools import at_night, users_packages

#: One worker: the environments are shared by the tests below.
pytestmark = pytest.mark.xdist_group("installation")

DEADLINE_S = 180
#: What would lead a child back to the checkout, or make another wheel of it.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "HATCH_BUILD_HOOK_ENABLE_MYPYC")
OWNERS = f"import {', '.join(PACKAGES)}; print({', '.join(f'{name}.OWNER' for name in PACKAGES)}, sep='\\n')"
FILES = "from importlib.metadata import files; print(*{file.parts[0] for file in files('brokerproof')}, sep='\\n')"
TYPED = "from brokerproof.conformance.cli import main\nreveal_type(main)\n"


def output(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command says that must succeed."""
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


class Built:
    """The distributions of the checkout, and the pip that installs them."""

    def __init__(self, folder: Path) -> None:
        output(sys.executable, "-m", "venv", folder / "tools")
        self.python = folder / "tools/bin/python"
        output(self.python, "-m", "pip", "install", "-q", "hatchling>=1.25")
        output(self.python, "-m", "hatchling", "build", "-d", folder)
        (self.wheel,) = folder.glob("*.whl")
        (self.sdist,) = folder.glob("*.tar.gz")
        again = folder / "again"
        output(self.python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", again, self.sdist)
        (self.wheel_of_sdist,) = again.glob("*.whl")


class Installed:
    """brokerproof in an environment that had packages of the rooms' names, used in a folder that has them too."""

    def __init__(self, built: Built, kind: str, folder: Path) -> None:
        output(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
        self.built = built
        self.kind = kind
        self.python = folder / "venv/bin/python"
        self.script = folder / "venv/bin/brokerproof"
        (self.site,) = folder.glob("venv/lib/python3*/site-packages")
        self.project = folder / "project"
        users_packages(self.site)
        users_packages(self.project)
        # A name of the standard library: it is seen here only by who puts site-packages before that.
        (self.site / "argparse.py").write_text("raise ImportError('taken from site-packages')\n")
        what: dict[str, list[str | Path]] = {
            "wheel": [built.wheel],
            "sdist": [built.wheel_of_sdist],
            "editable": ["-e", ROOT],
        }
        self.pip("install", "-q", "pytest", *what[kind])

    def pip(self, *words: str | Path) -> None:
        output(self.built.python, "-m", "pip", "--python", self.python, *words)

    def run(self, *words: str | Path) -> str:
        """brokerproof as a script in the user's project."""
        return output(self.script, *words, cwd=self.project)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module", params=at_night(["wheel", "sdist", "editable"], but=["wheel", "editable"]))
def installed(
    request: pytest.FixtureRequest, built: Built, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    made = Installed(built, request.param, tmp_path_factory.mktemp(request.param))
    yield made
    made.pip("uninstall", "-q", "-y", "brokerproof")
    assert owners(made, made.site) == {str(made.site)}, "what was uninstalled was ours alone"


def owners(installed: Installed, folder: Path) -> set[str]:
    return set(output(installed.python, "-c", OWNERS, cwd=folder).split())


def test_every_file_of_the_rooms_is_packed_once(built: Built) -> None:
    packed = {name for name in zipfile.ZipFile(built.wheel).namelist() if ".dist-info/" not in name}
    places = [(room, ROOT / room) for room in PACKAGES] + [("", ROOT / "src/brokerproof")]
    ours = {
        str(Path("brokerproof", room, path.relative_to(place)))
        for room, place in places
        for path in place.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == ours
    assert {Path(name).suffix for name in packed} >= {".py", ".toml", ".json", ".sql", ".html", ".css"}
    assert "brokerproof/py.typed" in packed
    assert built.wheel.name.endswith("-py3-none-any.whl")


def test_the_sdist_has_files_for_links_and_makes_the_same_wheel(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        assert [member.name for member in archive if not member.isfile()] == []
    wheel, again = (sorted(zipfile.ZipFile(path).namelist()) for path in (built.wheel, built.wheel_of_sdist))
    assert wheel == again


def test_one_name_is_added(installed: Installed) -> None:
    names = set(output(installed.python, "-c", FILES, cwd=installed.project).split())
    names -= {name for name in names if name == ".." or name.endswith(".dist-info")}  # the script, and what pip knows
    if installed.kind == "editable":
        (path_file,) = names
        (source,) = (installed.site / path_file).read_text().split()
        names = {path.name for path in Path(source).iterdir()}
    assert names == {"brokerproof"}


def test_the_users_packages_are_the_users(installed: Installed) -> None:
    assert owners(installed, installed.project) == {str(installed.project)}
    assert owners(installed, installed.site.parent) == {str(installed.site)}


def test_commands_work_beside_them(installed: Installed) -> None:
    assert "DLY-001" in installed.run("list")
    assert "usage: brokerproof" in output(installed.python, "-m", "brokerproof", "--help", cwd=installed.project)
    said = installed.run("run", "--tier", "simulated", "--programs", "5", "--requirement", "DLY-00*")
    assert "verdict digest: sha256:" in said
    assert (installed.project / "brokerproof-out/index.html").is_file()


def test_children_find_it_too(installed: Installed) -> None:
    """A broker and an agent in processes of their own."""
    assert "satisfied" in installed.run("replay", "live-delay", "--tier", "live", "--requirement", "GEN-*")


def test_pytest_collects_the_suite_from_the_users_project(installed: Installed) -> None:
    words = ["--pyargs", "brokerproof.conformance", "-q", "--brokerproof-programs", "3"]
    command = [installed.python, "-m", "pytest", *words, "-k", "test_seeds or live-delay"]
    said = output(*command, cwd=installed.project)
    assert re.search(r"\b[3-9] passed", said), said
    assert "verdict digest: sha256:" in said


def test_types_are_seen(installed: Installed) -> None:
    (installed.project / "uses.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed.python, "uses.py"]
    assert 'Revealed type is "def (argv:' in output(*command, cwd=installed.project)
