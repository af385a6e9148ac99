"""What commands that use Spark have in common: how it is reached, where the store is, and the plots at the end."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from brokerproof.conformance.experiment.exits import UsageError
from brokerproof.reports.campaign.cluster import Reach, parse_conf
from brokerproof.reports.render.plots import write_plots
from brokerproof.reports.store.files import StoreMissing
from brokerproof.reports.store.manifests import STORE, Store

#: Four attempts per task: one dead Python worker must not cost the campaign.
MASTER = "local[2,4]"
LAST = "the last one"


def add_spark_options(parser: argparse.ArgumentParser) -> None:
    """How Spark is reached, and where the store is."""
    parser.add_argument("--master", default=MASTER, metavar="URL", help=f"Spark master ({MASTER})")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark; may be repeated"
    )
    parser.add_argument(
        "--driver-host", default="", metavar="HOST", help="where a cluster's executors reach this machine (found out)"
    )
    parser.add_argument(
        "--archives", action="append", default=[], metavar="FILE", help="the environment of executors (docs/cluster.md)"
    )
    parser.add_argument("--store", default=STORE, metavar="DIR", help=f"folder or URI that keeps all runs ({STORE})")
    parser.add_argument(
        "--resume", nargs="?", const=LAST, metavar="ID", help="go on with a campaign that was killed (the last one)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead of the table")


def reach_of(options: argparse.Namespace) -> Reach:
    """How Spark is reached. Raises ``UsageError``."""
    return Reach(options.master, parse_conf(options.conf), options.driver_host, tuple(options.archives))


def check_spark_options(options: argparse.Namespace) -> None:
    """Raises ``UsageError`` for what argparse cannot see."""
    if not re.fullmatch(r"local(\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\])?|spark://\S+:\d+", options.master):
        raise UsageError(f"--master is {options.master!r}; give local[2], local[*], local[2,4] or spark://HOST:PORT")
    for path in options.archives:
        if "://" not in path and not Path(path.partition("#")[0]).is_file():
            raise UsageError(f"--archives {path}: there is no such file; docs/cluster.md says how it is made")
    parse_conf(options.conf)


def plots_of(store: Store, campaign: str, path: Path) -> str:
    """Where the page is, or what it lacks."""
    try:
        write_plots(store, campaign, path)
    except StoreMissing as error:
        path.unlink(missing_ok=True)  # an earlier campaign's
        return f"none; {error}"
    return str(path)
