"""A broker that starts loads only what it uses: live runs start hundreds."""

from __future__ import annotations

import subprocess
import sys

#: Package data, ActiveMQ's XML, SQLite, HTTP and metrics, the grammar of selectors.
SELDOM = {"importlib.metadata", "xml.etree.ElementTree", "sqlite3", "h11", "prometheus_client", "lark"}


def test_nothing_is_loaded_before_it_is_used() -> None:
    script = "import sys, brokerproof.reference_broker.server.serve; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not SELDOM.intersection(loaded)
