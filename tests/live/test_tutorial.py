"""docs/tutorial.md, executed: its ``sh`` blocks are one script, run by a shell that stops at the first failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from brokerproof.chaos.ports import free_port
from tests.live.served import ROOT

#: A quick run takes a minute; the others play a handful of programs each.
DEADLINE_S = 400


def test_every_command_of_the_tutorial_does_what_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    script = "".join(blocks).replace("61613", str(free_port()))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "first verdict after" in said
    assert re.search(r"GEN .*✔ \d+", said), said
    assert re.search(r"my-broker 1\.1\.0: ✘ 1 violated", said), said
    assert "⚑ 1 known" in said, said
    ends = [int(code) for code in re.findall(r"^exit code (\d)$", said, re.MULTILINE)]
    assert set(ends) == {1}, said
    assert len(ends) >= 2, said  # the quick run, and the one with a profile before its deviation was listed
    assert (tmp_path / "report" / "index.html").exists()
