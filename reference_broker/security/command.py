"""``brokerproof password``: make the hash of a password for the configuration file.

The password is read from the terminal without echo, or is the first line of standard input, so that it appears neither
in a list of processes nor in a shell's history.
"""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Sequence

from brokerproof.reference_broker.security.passwords import hash_password

EXIT_OK = 0
EXIT_USAGE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Print the hash."""
    parser = argparse.ArgumentParser(
        prog="brokerproof password",
        description="Make a password hash for [[security.users]] of a broker's configuration file. "
        "The password is asked for, or read from the first line of standard input.",
    )
    parser.parse_args(sys.argv[1:] if argv is None else argv)
    password = getpass.getpass("password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not password:
        sys.stderr.write("brokerproof password: the password is empty; type one, or give it on standard input\n")
        return EXIT_USAGE
    sys.stdout.write(f"{hash_password(password)}\n")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
