"""The trial of automatic mutants: a process that imports the broker with one defect and runs programs with it.

``python -m brokerproof.conformance.running.automatic.trial`` reads one JSON object from stdin (``Task``) and writes one
to stdout (``Outcome``). The defect is there before anything of the broker is imported, so it reaches constants and
tables as well; hence no import of ours at the top.

Rules: the first program whose run differs in its verdicts decides, and ends the trial. A run whose history is that of
the sound broker is not judged.
"""

from __future__ import annotations

import json
import resource
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

    from brokerproof.conformance.running.automatic.task import Outcome, Task

#: What a broker that collects without end may take before the system refuses.
MEMORY_BYTES = 2 * 1024**3


class Planted(MetaPathFinder):
    """Finds one module elsewhere: in a text."""

    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._source = source

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._module:
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec is not None, f"there is no module {name}"
        assert spec.origin is not None
        spec.loader = _text_loader(name, spec.origin, self._source)
        return spec


def _text_loader(name: str, path: str, source: str) -> Loader:
    class TextLoader(SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - as its base
            code: CodeType = compile(source, path, "exec", dont_inherit=True)
            return code

    return TextLoader(name, path)


def plant(module: str, source: str) -> None:
    """Let ``module`` have this text when it is imported."""
    assert module not in sys.modules, f"{module} is imported already: the defect would not be seen"
    sys.meta_path.insert(0, Planted(module, source))


def try_out(task: Task) -> Outcome:
    """Import the broker with the defect and run the programs."""
    plant(task["module"], task["source"])
    try:
        from brokerproof.conformance.running.automatic.comparing import compare
    except Exception:  # noqa: BLE001 - whatever the defect does to an import
        return {"kind": "crashed", "by": [], "program": "", "history": "", "programs": 0}
    return compare(task["programs"])


def main() -> None:
    """See the module's header."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sys.stdout.write(json.dumps(try_out(json.load(sys.stdin))) + "\n")


if __name__ == "__main__":
    main()
