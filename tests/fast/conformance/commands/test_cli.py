"""The command line from outside: what each flag changes, exit codes, one clear message for every kind of nonsense."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from brokerproof.conformance.brokers.reference import ReferenceAdapter
from brokerproof.conformance.cli import COMMANDS, main
from brokerproof.conformance.commands.judge import exit_code
from brokerproof.conformance.corpus import programs
from brokerproof.conformance.experiment.exits import INCONCLUSIVE, OK, SUITE, USAGE, VIOLATED, UsageError, guarded
from brokerproof.conformance.experiment.program import Program
from brokerproof.conformance.experiment.results import RunResult
from brokerproof.conformance.experiment.verdict import Verdict, VerdictKind

ROOT = Path(__file__).resolve().parents[4]
SMALL = ["--tier", "simulated", "--jobs", "1", "--inconclusive-max", "100"]


#: How many named programs a run plays here: what a flag changes does not depend on the others.
NAMED = 3


@pytest.fixture(autouse=True)
def short_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "brokerproof.conformance.running.suite.programs", lambda: dict(list(programs().items())[:NAMED])
    )


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that read no pages: each run would draw one for every requirement."""
    monkeypatch.setattr("brokerproof.reports.render.formats.write_html", lambda folder, *_: folder / "index.html")


def run(*arguments: str, out: Path | None = None) -> int:
    extra = ["--out", str(out)] if out is not None else []
    return main([*arguments, *extra])


def digest_of(text: str) -> str:
    found = re.search(r"verdict digest: (sha256:[0-9a-f]{64})", text)
    assert found is not None, text
    return found.group(1)


def test_several_globs_choose_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--requirement", "TSP-00[12]", "--requirement", "EXP-001,EXP-003"]) == OK
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["EXP-001", "EXP-003", "TSP-001", "TSP-002"]


def test_help_lists_every_command_and_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "brokerproof", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=ROOT,
    )
    assert all(f"  {name} " in done.stdout for name in COMMANDS)
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "msgspec" not in imported, "--help must import nothing heavy"
    assert "hypothesis" not in imported


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nonsense"], USAGE, "'nonsense' is not a command; one of run, list"),
        (["run", "--nonsense"], USAGE, "unrecognized arguments: --nonsense"),
        (["run", "--broker", "rabbit"], USAGE, "'rabbit'"),
        (["run", "--broker", "rabitmq"], USAGE, "did you mean 'rabbitmq'?"),
        (["run", "http://127.0.0.1:1"], USAGE, "http://127.0.0.1:1 is not a STOMP address"),
        (["run", "stomp://a:b@127.0.0.1:x"], USAGE, "stomp://…@127.0.0.1:x"),
        (["run", "stomp://127.0.0.1:1", "--broker", "reference"], USAGE, "two brokers"),
        (["run", "no-such.toml"], USAGE, "no-such.toml: No such file or directory; give a broker profile"),
        (["run", "reference@2"], USAGE, "has no releases"),
        (["profile", "init", "x"], USAGE, "'x' is not a URL"),
        (["profile", "check", "reference"], USAGE, "has no lines to prove"),
        (["run", "--requirement", "XYZ-*"], USAGE, "no judged requirement matches 'XYZ-*'"),
        (["run", "--mutant", "no-such"], USAGE, "mutant 'no-such' is unknown; `brokerproof list mutants` shows all"),
        (["run", "--mutant", "delay-1ms-early", "--broker", "activemq"], USAGE, "not in 'activemq'"),
        (["run", "--broker", "activemq", "--tier", "simulated"], USAGE, "needs --tier live"),
        (["run", "--jobs", "0"], USAGE, "--jobs 0 at least 1"),
        (["run", "--home", "/opt/activemq"], USAGE, "'reference' is not started from one"),
        (["run", "--guided", "--programs", "0"], USAGE, "--guided is for random programs in virtual time"),
        (["run", "--chaos", "wild"], USAGE, "--chaos 'wild' is no profile; one of calm, nightly, cruel"),
        (["run", "--chaos", "calm", "--tier", "live"], USAGE, "give --budget SECONDS or --programs N"),
        (["run", "--chaos", "calm", "--guided"], USAGE, "leave --guided out"),
        (["nightly", "--chaos", "wild"], USAGE, "--chaos 'wild' is no profile"),
        (["run", "--budget", "-1"], USAGE, "--budget '-1' is no time; give hours, minutes or seconds"),
        (["run", "--budget", "nan"], USAGE, "--budget 'nan' is no time; give hours, minutes or seconds"),
        (["run", "--inconclusive-max", "101"], USAGE, "--inconclusive-max 101.0 must be a percentage, 0 to 100"),
        (["run", *SMALL, "--programs", "0", "--out", "/dev/null/x"], USAGE, "/dev/null/x: cannot be written"),
        (["campaign", "--out", "/dev/null/x"], USAGE, "/dev/null/x: cannot be written"),
        (["replay", "--seed", "1", "--out", "/dev/null/x"], USAGE, "/dev/null/x: cannot be written"),
        (["replay", "a-batch-is-dividd"], USAGE, "did you mean 'a-batch-is-divided'?"),
        (["mutants", "delay-1ms-erly"], USAGE, "did you mean 'delay-1ms-early'?"),
        (["mutants", "--programs", "-1"], USAGE, "--programs -1 must be at least 0"),
        (["parity", "--programs", "-1"], USAGE, "--programs -1 must be at least 0"),
        (["replay"], USAGE, "give either a program (file or corpus name) or --seed N"),
        (["replay", "no-such-name"], USAGE, "neither a file nor a corpus program"),
        (["replay", "--seed", "1", "--machine", "delay", "--shrink"], USAGE, "leave out --machine delay"),
        (["replay", "--seed", "1", "--machine", "delays"], USAGE, "invalid choice: 'delays'"),
        (["replay", "missing.json"], USAGE, "missing.json: cannot be read"),
        (["judge", "missing.jsonl"], USAGE, "missing.jsonl: cannot be read"),
        (["report", "no/such/folder"], USAGE, "no/such/folder"),
        (["mutants", "no-such"], USAGE, "mutant 'no-such' is unknown"),
        (
            ["list", "--requirement", "EXP-001", "--requirement", "XYZ-*"],
            USAGE,
            "no judged requirement matches 'XYZ-*'",
        ),
        (["list", "--requirement", "XYZ-*"], USAGE, "no judged requirement matches 'XYZ-*'"),
        (["run", "--speed", "10", "--tier", "simulated"], USAGE, "virtual time waits for nothing"),
        (["replay", "--seed", "1", "--speed", "10"], USAGE, "virtual time waits for nothing"),
    ],
)
def test_run_refuses_nonsense(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    output = capsys.readouterr()
    assert message in output.err
    assert "Traceback" not in output.err


def test_a_program_for_a_broker_that_does_not_exist_is_bad_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.json"
    program = json.loads(next(iter(programs().values())).encode())
    for generation, message in (({"memory": "G9"}, "'G9' of area 'memory' is unknown"), ({"memry": "G1"}, "'memry'")):
        path.write_text(json.dumps({**program, "broker": {"generation": generation}}), encoding="utf-8")
        assert main(["replay", str(path)]) == USAGE
        assert message in capsys.readouterr().err


def test_a_defect_of_ours_is_shown_and_ends_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_: object) -> int:
        raise RuntimeError("ours")

    assert guarded("x", broken, []) == SUITE
    assert "this is a defect of the suite" in capsys.readouterr().err

    def refused(_: object) -> int:
        raise UsageError("theirs")

    assert guarded("x", refused, []) == USAGE
    assert capsys.readouterr().err == "brokerproof x: theirs\n"


def test_run_writes_its_report_where_out_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", *SMALL, "--programs", "5", out=tmp_path / "r") == OK
    output = capsys.readouterr().out
    assert output.splitlines()[-1].startswith("verdict digest: sha256:")
    for name in ("report.json", "index.html", "junit.xml"):
        assert (tmp_path / "r" / name).stat().st_size > 0
    (tmp_path / "r" / "index.html").unlink()
    assert main(["report", str(tmp_path / "r")]) == OK
    assert (tmp_path / "r" / "index.html").stat().st_size > 0


@pytest.mark.usefixtures("no_pages")
def test_seed_and_programs_choose_what_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digests = []
    for seed, count in (("0", "3"), ("100", "3"), ("0", "4"), ("0", "3")):
        # Few programs leave a requirement or two inconclusive.
        assert run("run", *SMALL, "--seed", seed, "--programs", count, out=tmp_path / "r") in {OK, INCONCLUSIVE}
        digests.append(digest_of(capsys.readouterr().out))
    assert digests[0] == digests[3]
    assert len(set(digests)) == 3


@pytest.mark.usefixtures("no_pages")
def test_tier_chooses_the_worlds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", "--json", *SMALL, "--seed", "1", "--programs", "2", out=tmp_path) == OK
    cells = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    worlds = {count["world"] for cell in cells for count in cell.get("worlds", [])}
    assert worlds == {"simulated"}


@pytest.mark.usefixtures("no_pages")
def test_budget_cuts_seeds_short(tmp_path: Path) -> None:
    assert run("run", *SMALL, "--programs", "400", "--budget", "0", out=tmp_path) == OK
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["columns"][0]["runs"] <= NAMED + 1


@pytest.mark.usefixtures("no_pages")
def test_requirement_restricts_what_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", "--json", *SMALL, "--programs", "2", "--requirement", "DLY-*", out=tmp_path) == OK
    judged = {json.loads(line)["verdict"]["requirement"] for line in capsys.readouterr().out.splitlines()}
    assert judged
    assert all(name.startswith("DLY-") for name in judged)
    assert main(["replay", "--seed", "4", "--requirement", "EXP-*", "--json", "--out", str(tmp_path / "x")]) == OK
    judged = {json.loads(line)["requirement"] for line in capsys.readouterr().out.splitlines()}
    assert all(name.startswith("EXP-") for name in judged)
    history = str(tmp_path / "x" / "history.jsonl")
    assert main(["judge", history, "--requirement", "GEN-*", "--json"]) == OK
    judged = {json.loads(line)["requirement"] for line in capsys.readouterr().out.splitlines()}
    assert all(name.startswith("GEN-") for name in judged)


@pytest.mark.usefixtures("no_pages")
def test_a_planted_defect_turns_the_run_red(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run("run", *SMALL, "--seed", "41", "--programs", "3", "--mutant", "delay-1ms-early", out=tmp_path)
    output = capsys.readouterr().out
    assert code == VIOLATED
    line = next(line for line in output.splitlines() if line.startswith("violated  DLY-001"))
    command = re.search(r"brokerproof (replay .*)$", line)
    assert command is not None
    assert main(command.group(1).split()) == VIOLATED, "the replay line must reproduce it"
    assert "DLY-001" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kinds", "percent", "code"),
    [
        ("ss", 5, 0),
        ("sv", 5, 1),
        ("si", 5, 3),
        ("si", 50, 0),
        ("sk", 5, 0),
        ("nn", 5, 0),
    ],
)
def test_inconclusive_max_decides_between_0_and_3(kinds: str, percent: int, code: int) -> None:
    words = {
        "s": VerdictKind.SATISFIED,
        "v": VerdictKind.VIOLATED,
        "i": VerdictKind.INCONCLUSIVE,
        "k": VerdictKind.KNOWN_FAILURE,
        "n": VerdictKind.NOT_EXERCISED,
    }
    assert exit_code([Verdict("EXP-001", words[kind]) for kind in kinds], percent) == code


def test_replay_by_seed_file_and_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--seed", "7", "--out", str(tmp_path)]) == OK
    by_seed = capsys.readouterr().out
    assert main(["replay", str(tmp_path / "program.json"), "--out", str(tmp_path / "again")]) == OK
    first, second = (tmp_path / "history.jsonl").read_bytes(), (tmp_path / "again" / "history.jsonl").read_bytes()
    assert first.split(b"\n", 1)[1] == second.split(b"\n", 1)[1], "only the header knows the seed"
    assert "verdict digest" in by_seed
    assert main(["replay", next(iter(programs()))]) == OK
    assert main(["judge", str(tmp_path / "history.jsonl")]) == OK


def test_replay_with_a_mutant_fails_and_shrinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["replay", "--mutant", "delay-1ms-early", "--requirement", "DLY-001"]
    for seed in range(40):
        if main([*asked, "--seed", str(seed)]) == VIOLATED:
            break
        capsys.readouterr()
    long = capsys.readouterr().out
    assert main([*asked, "--seed", str(seed), "--shrink"]) == VIOLATED
    output = capsys.readouterr()
    assert len(output.out) < len(long)
    assert "delta debugging, then Hypothesis" in output.err
    line = re.search(r"replay: +brokerproof (replay .*)$", output.out, re.MULTILINE)
    assert line is not None
    assert main(line.group(1).split()) == VIOLATED, "the replay line of the shrunk program must reproduce it"


@pytest.fixture
def violating(monkeypatch: pytest.MonkeyPatch) -> None:
    """A live broker that violates DLY-001, made up: no process is started."""

    def run_all(
        adapter: object, plan: list[tuple[str, Program]], wanted: object, mutant: str | None
    ) -> Iterator[RunResult]:
        for name, program in plan:
            verdict = Verdict("DLY-001", VerdictKind.VIOLATED)
            yield RunResult(name, "made up", "live", program, [verdict], None, mutant=mutant)

    monkeypatch.setattr("brokerproof.conformance.running.live.run_all", run_all)
    monkeypatch.setattr("brokerproof.conformance.brokers.make_adapter", lambda *_, **__: ReferenceAdapter())


@pytest.mark.usefixtures("violating")
@pytest.mark.parametrize(
    "where",
    [
        "live-delay --tier live",
        "live-delay --tier live --mutant delay-1ms-early",
        "--seed 7 --tier live --broker activemq@5.12.3 --client openwire",
        "live-delay --tier live --broker activemq --home '/opt/a b'",
        "'my program.json' --tier live --broker stomp://127.0.0.1:9",
    ],
)
def test_the_replay_line_says_where(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my program.json").write_bytes(programs()["live-delay"].encode())
    assert main(["replay", *shlex.split(where), "--requirement", "DLY-*"]) == VIOLATED
    assert f"  replay:     brokerproof replay {where}\n" in capsys.readouterr().out


@pytest.mark.usefixtures("violating")
def test_what_virtual_time_does_not_show_is_not_shrunk_and_stays_violated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["replay", "live-delay", "--tier", "live", "--shrink"]) == VIOLATED
    output = capsys.readouterr()
    assert output.err == "not shrunk: in virtual time the reference broker keeps DLY-001\n"
    assert "replay:     brokerproof replay live-delay --tier live\n" in output.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_cites_pages_that_are_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert f"brokerproof {command}" in text
    assert "DESIGN" not in text
    assert all((ROOT / page).is_file() for page in re.findall(r"[\w./]+\.md", text))


def test_the_readme_finds_the_defect_that_it_plants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = re.findall(r"^brokerproof (replay .*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert main(line.split()) == VIOLATED
    assert "DLY-001 (MUST)" in capsys.readouterr().out


def test_list_selects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "requirements", "--requirement", "INA-*"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith("INA-") for line in lines)
    for what in ("programs", "mutants", "brokers"):
        assert main(["list", what]) == OK
        assert capsys.readouterr().out


@pytest.mark.usefixtures("no_pages")
def test_json_output_is_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [
        ["run", "--json", *SMALL, "--programs", "1", "--out", str(tmp_path)],
        ["list", "--json"],
        ["replay", "--seed", "2", "--json", "--out", str(tmp_path / "x")],
        ["judge", "--json", str(tmp_path / "x" / "history.jsonl")],
        ["mutants", "--json", "--programs", "300", "--jobs", "1", "delay-1ms-early"],
    ]
    for command in commands:
        assert main(command) == OK
        lines = capsys.readouterr().out.splitlines()
        assert lines
        assert all(isinstance(json.loads(line), dict) for line in lines)


def test_mutants_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants", "delay-1ms-early", "--jobs", "1", "--seed", "0", "--programs", "200"]) == OK
    assert "1 of 1 mutants killed" in capsys.readouterr().out
    assert main(["mutants", "delay-1ms-early", "--programs", "0", "--jobs", "2"]) == VIOLATED
    assert "SURVIVED" in capsys.readouterr().out


def test_mutants_that_wait_are_given_up_when_the_hunt_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the pool, on its way out, would hunt all of them first."""
    futures: list[Future[object]] = []

    class Pool(contextlib.nullcontext[object]):
        def __init__(self, jobs: int, mp_context: object, initializer: object) -> None:
            del jobs, mp_context, initializer
            super().__init__(self)

        def submit(self, *_: object) -> Future[object]:
            futures.append(Future())
            return futures[-1]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("brokerproof.conformance.commands.mutants.ProcessPoolExecutor", Pool)
    monkeypatch.setattr(Future, "result", interrupted)
    assert main(["mutants", "--jobs", "2"]) == SUITE
    assert futures
    assert all(future.cancelled() for future in futures)


def test_the_canary_sings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants", "--canary"]) == OK
    assert "canary: delay-1ms-early was found" in capsys.readouterr().out


@pytest.mark.usefixtures("no_pages")
def test_a_run_says_as_much_as_it_is_asked_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = {}
    for flag in ("--quiet", "--tier=simulated", "--verbose"):
        assert run("run", *SMALL, "--programs", "0", flag, out=tmp_path) == OK
        lines[flag] = len(capsys.readouterr().out.split("GEN-0"))
    assert lines["--quiet"] <= lines["--tier=simulated"] < lines["--verbose"]


@pytest.mark.parametrize("printing", ["sys.stdout.write('x' * 99999)", "make_console().print('x ' * 99999)"])
def test_a_reader_that_leaves_changes_no_exit_code(printing: str) -> None:
    code = f"""if True:
        import sys
        from brokerproof.conformance.experiment.exits import guarded, reader_may_leave
        from brokerproof.reports.render.terminal import make_console
        def command(argv):
            with reader_may_leave():
                {printing}
            return 1
        sys.exit(guarded("x", command, []))"""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.usefixtures("no_pages")
def test_a_build_server_gets_a_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert (
        run("run", *SMALL, "--seed", "41", "--programs", "3", "--mutant", "delay-1ms-early", out=tmp_path) == VIOLATED
    )
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert re.search(r"\*\*DLY-0\d\d.*\*\* violated: ", text)
    assert "| |" not in text, "the matrix stays in report.md"


def test_completion_knows_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == OK
    script = f'brokerproof() {{ {sys.executable} -m brokerproof "$@"; }}\n' + capsys.readouterr().out
    for words, wanted in (("rep", {"replay", "report"}), ("diff --for", {"--format"})):
        asked = (
            f'COMP_WORDS=(brokerproof {words}); COMP_CWORD={len(words.split())}; _brokerproof; echo "${{COMPREPLY[@]}}"'
        )
        done = subprocess.run(["bash", "-c", script + asked], capture_output=True, text=True, check=True, timeout=60)
        assert set(done.stdout.split()) == wanted


def test_doctor_reports(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The probes themselves are tested live; here: what the command makes of them."""
    from brokerproof.chaos.probes import ProbeResult

    asked: list[tuple[bool, object]] = []

    def probes(install: bool, progress: object, only: object) -> list[ProbeResult]:
        asked.append((install, only))
        return [ProbeResult("java", True, "17", "", 0.1), ProbeResult("go", False, "not found", "install Go", 0.0)]

    monkeypatch.setattr("brokerproof.conformance.commands.doctor.run_doctor", probes)
    monkeypatch.setenv("CI", "")
    assert main(["doctor"]) == OK
    assert "remedy: install Go" in capsys.readouterr().out
    monkeypatch.setenv("CI", "true")
    assert main(["doctor", "--install", "--json"]) == SUITE
    assert [json.loads(line)["ok"] for line in capsys.readouterr().out.splitlines()] == [True, False]
    monkeypatch.setenv("CI", "")
    assert main(["doctor", "java"]) == OK
    assert main(["doctor", "java", "go"]) == VIOLATED
    assert main(["doctor", "jvaa"]) == USAGE
    assert asked == [(False, None), (True, None), (False, ["java"]), (False, ["java", "go"])]


def test_the_users_own_packages_are_not_ours(tmp_path: Path) -> None:
    """A project that has a ``reports`` of its own still has it, and brokerproof works there."""
    for name in ("chaos", "conformance", "reference_broker", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("OWNER = 'the user'\n")
    code = (
        "import sys, chaos, conformance, reference_broker, reports; "
        "assert {m.OWNER for m in (chaos, conformance, reference_broker, reports)} == {'the user'}; "
        "from brokerproof.conformance.cli import main; sys.exit(main(['list']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == OK, done.stderr
