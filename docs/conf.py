"""How Sphinx makes the site: ``tox -e docs``. Pages are this folder's Markdown files, which read as well without it."""

from __future__ import annotations

import shutil
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: The report of the last run, if there is one, is the example that every page links to.
REPORT = Path(__file__).resolve().parent.parent / "brokerproof-out"
HAS_REPORT = (REPORT / "index.html").exists()

project = "brokerproof"
author = "The brokerproof authors"
version = release = version_of("brokerproof")
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["agents/*"]
html_theme = "furo"
html_title = f"brokerproof {release}"
html_theme_options = {"announcement": '<a href="example/index.html">an example report</a>'} if HAS_REPORT else {}
html_copy_source = html_show_sourcelink = False
# Links to a heading, as GitHub names them.
myst_heading_anchors = 4
nitpicky = True


def with_example(app: Sphinx, error: Exception | None) -> None:
    """Beside the pages."""
    if error is None and HAS_REPORT:
        shutil.copytree(REPORT, Path(app.outdir) / "example", dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("build-finished", with_example)
