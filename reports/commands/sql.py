"""``brokerproof sql``: questions to everything that was ever run, in SQL (docs/store.md).

Without a QUERY it is a prompt, or reads statements from a pipe. A QUERY is SQL, or the name of a question that comes
with the release: ``brokerproof sql violated``.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from brokerproof.conformance.experiment.exits import OK, USAGE, UsageError, reader_may_leave
from brokerproof.reports.store.duck import connect, questions
from brokerproof.reports.store.manifests import STORE, Store

if TYPE_CHECKING:
    import duckdb

PROMPT, MORE = "sql> ", "...> "
#: Rows that a terminal shows; `COPY (…) TO 'file.csv'` writes all.
ROWS_MAX = 200


def main(argv: Sequence[str]) -> int:
    """Parse, answer."""
    parser = argparse.ArgumentParser(prog="brokerproof sql", description=__doc__)
    parser.add_argument("query", nargs="?", metavar="QUERY", help="SQL, or a question's name; none: a prompt")
    parser.add_argument("--store", default=STORE, metavar="DIR", help=f"folder or URI of the store ({STORE})")
    options = parser.parse_args(argv)
    asked = questions()
    if options.query is not None and options.query not in asked and " " not in options.query.strip():
        raise UsageError(f"{options.query!r} is no question and no SQL; questions are {', '.join(asked)}")
    code = OK
    with contextlib.closing(connect(Store(options.store))) as connection, reader_may_leave():
        if options.query is not None:
            code = _answer(connection, asked.get(options.query, options.query))
        elif sys.stdin.isatty():
            _prompt(connection, asked)
        else:
            code = max([_answer(connection, text) for text in _statements(sys.stdin)], default=OK)
    return code


def _prompt(connection: duckdb.DuckDBPyConnection, asked: dict[str, str]) -> None:
    import readline  # noqa: F401 - lines can be edited and called back

    for name, text in asked.items():
        sys.stdout.write(f"  {name:<12} {text.partition(chr(10))[0].removeprefix('-- ')}\n")
    sys.stdout.write("a question's name, or SQL that ends with a semicolon; SHOW TABLES; ctrl-d ends\n")
    for text in _statements(_typed(asked)):
        _answer(connection, asked.get(text.strip().rstrip(";"), text))


def _typed(asked: dict[str, str]) -> Iterator[str]:
    """Lines from the keyboard; a question's name is a statement. What is interrupted is forgotten."""
    prompt = PROMPT
    with contextlib.suppress(EOFError):
        while True:
            try:
                line = input(prompt)
            except KeyboardInterrupt:
                sys.stdout.write("\n")
                continue
            if prompt == PROMPT and line.strip() in asked:
                line += ";"
            prompt = PROMPT if line.rstrip().endswith(";") or not line.strip() else MORE
            yield line + "\n"


def _statements(lines: Iterable[str]) -> Iterator[str]:
    """Statements, each ended by a semicolon at the end of a line, or by the end."""
    text = ""
    for line in lines:
        text += line
        if text.rstrip().endswith(";"):
            yield text
            text = ""
    if text.strip():
        yield text


def _answer(connection: duckdb.DuckDBPyConnection, text: str) -> int:
    import duckdb

    try:
        found = connection.sql(text)
        if found is not None:
            found.show(max_rows=ROWS_MAX)
    except duckdb.Error as error:
        sys.stderr.write(f"brokerproof sql: {error}\n")
        return USAGE
    return OK
