"""Start-up check: all four packages come from our distribution.

``reports`` and ``chaos`` are common names: another distribution, or a folder of the user's, can shadow them. Then the
suite would run with half of somebody else's code, so it says what shadows what and stops.
"""

from __future__ import annotations

from importlib import util
from pathlib import Path

PACKAGES = ("reference_broker", "chaos", "conformance", "reports")


class ShadowedPackage(Exception):
    """One of our packages is missing or is somebody else's. Remedy: start from another folder, or install into an
    environment of its own.
    """

    exit_code = 4


def check_installation() -> None:
    """Raise ``ShadowedPackage`` unless all packages stand side by side."""
    home = Path(__file__).resolve().parents[1]
    for name in PACKAGES:
        spec = util.find_spec(name)
        origin = spec.origin if spec is not None else None
        if origin is None:
            raise ShadowedPackage(f"the package {name!r} is missing beside {home}; install brokerproof again")
        found = Path(origin).resolve().parents[1]
        if found != home:
            raise ShadowedPackage(
                f"the package {name!r} comes from {found}, but brokerproof is installed in {home}; "
                "start from another folder or install brokerproof into an environment of its own"
            )
