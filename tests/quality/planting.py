"""A pytest plugin that plants a defect in the suite itself: ``pytest -p tests.quality.planting``, with the defect's
name in the environment. It is there before anything of ours is imported.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from brokerproof.conformance.running.automatic.trial import plant

VARIABLE: Final = "BROKERPROOF_SUITE_MUTANT"
FAST: Final = "tests/fast/conformance"
#: Name -> module, the text that is replaced (once), what stands there instead, and the tests of which one must fail.
MUTANTS: Final[dict[str, tuple[str, str, str, str]]] = {
    "a rule that always holds": (
        "rules.delivery",
        "if missing(facts, copy):",
        "if False:",
        f"{FAST}/rules/test_delivery.py",
    ),
    "a judge that trusts marked rows": (
        "rules.judge",
        "finding.holds is None or unhandled",
        "finding.holds is None",
        f"{FAST}/rules/test_mixed_features.py",
    ),
    "a generator that draws no feature": (
        "generate.programs",
        "def draw_features(chooser: Chooser) -> tuple[str, ...]:",
        "def draw_features(chooser: Chooser) -> tuple[str, ...]:\n    return ()",
        f"{FAST}/generate/test_features.py",
    ),
    "facts without probes": (
        "facts.recording",
        "            Probe: tables.probes.append,\n",
        "",
        f"{FAST}/rules/test_raw_peers.py",
    ),
    "facts without crashes": (
        "facts.recording",
        "            Crash: tables.crashes.append,\n",
        "",
        f"{FAST}/running/test_broken_brokers.py",
    ),
    "a mutant that is not planted": (
        "running.engine",
        "history = simulate(program, seed=seed, mutant=mutant)",
        "history = simulate(program, seed=seed, mutant=None)",
        "tests/quality/test_mutants.py::test_the_canary_tells_its_story",
    ),
    "an exit code that is always 0": (
        "commands.judge",
        "if VerdictKind.VIOLATED in kinds:",
        "if False:",
        f"{FAST}/commands/test_cli.py",
    ),
    "a shrinker that takes what does not fail": (
        "generate.shrink",
        "        if known:\n            self.best",
        "        if True:\n            self.best",
        "tests/quality/test_shrink.py",
    ),
    "a silence that nobody is told of": (
        "running.silence",
        "if name not in self._spoken]",
        "if False]",
        f"{FAST}/running/test_silence.py",
    ),
    "a drain that takes nothing": (
        "worlds.executor",
        "        progress = True\n        while progress:",
        "        progress = False\n        while progress:",
        f"{FAST}/facts/test_truth.py {FAST}/worlds/test_simulated.py",
    ),
    "known deviations that never grow stale": (
        "known",
        "def apply_known(",
        "def apply_known(name, program, verdicts, known):\n    return verdicts, []\n\n\ndef _apply_known(",
        f"{FAST}/known/test_known.py",
    ),
}


def planted(name: str) -> tuple[str, str]:
    """The module's full name and its text with the defect."""
    module, before, after, _ = MUTANTS[name]
    full = f"brokerproof.conformance.{module}"
    spec = find_spec(full)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text("utf-8")
    assert source.count(before) == 1, (
        f"{module} has {source.count(before)} times {before!r}; the mutant {name!r} is stale"
    )
    return full, source.replace(before, after)


if VARIABLE in os.environ:
    plant(*planted(os.environ[VARIABLE]))
    import_module("brokerproof.conformance.cli")
