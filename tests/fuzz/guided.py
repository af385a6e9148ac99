"""atheris on one target: ``python -m tests.fuzz.guided NAME FOLDER [libFuzzer's options]``; started by ``__main__.py``,
which removes the folder, as this process does not live to do it.

The codecs are instrumented while they are imported, so this module imports nothing of ours before.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris


def main() -> None:
    """Never returns."""
    with atheris.instrument_imports(
        include=["brokerproof.reference_broker.stomp", "brokerproof.reference_broker.openwire"]
    ):
        from tests.fuzz.targets import target
    of = target(sys.argv[1])
    corpus = Path(sys.argv[2])
    for number, sample in enumerate(of.samples):
        (corpus / str(number)).write_bytes(sample)
    atheris.Setup([sys.argv[0], *sys.argv[3:], str(corpus)], lambda data: of.run(data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
