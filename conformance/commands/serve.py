"""``brokerproof serve``: the reference broker's server, with or without a planted defect (``--mutant ID``).

The server itself knows no mutants; it lets the caller make the node.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from brokerproof.conformance.mutants import build, check_mutant
from brokerproof.reference_broker.core.config import BrokerConfig
from brokerproof.reference_broker.node import Node
from brokerproof.reference_broker.server import serve
from brokerproof.reference_broker.storage.journal import Journal


def main(argv: Sequence[str]) -> int:
    """Serve until SIGTERM; all other options are the server's own."""
    parser = argparse.ArgumentParser(prog="brokerproof serve", add_help=False)
    parser.add_argument("--mutant", metavar="ID")
    options, rest = parser.parse_known_args(argv)
    check_mutant(options.mutant)
    if "--help" in rest or "-h" in rest:
        sys.stdout.write("--mutant ID plants a defect (`brokerproof list mutants`); the server's own options are:\n\n")

    def make_node(config: BrokerConfig, journal: Journal | None) -> Node:
        return build(options.mutant, config).node(journal)

    return serve.main(rest, make_node)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
