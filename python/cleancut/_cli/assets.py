"""The command `cleancut assets`: writes the alert rules and the dashboard of this version."""

import argparse
from pathlib import Path
from typing import Any

from cleancut._assets import ASSETS, changed_assets, write_assets
from cleancut._cli.parsers import add_command, invalid
from cleancut._cli.statuses import OK


def add_assets(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "assets",
        "write alert rules for Prometheus and a dashboard for Grafana into a directory",
        f"The files are {' and '.join(ASSETS)}. Files that you have changed are kept.",
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="created if it does not exist")
    parser.add_argument("--overwrite", action="store_true", help="replace changed files")
    parser.set_defaults(run=_write)


def _write(parsed: argparse.Namespace) -> int:
    changed = [] if parsed.overwrite else changed_assets(parsed.directory)
    if changed:
        named = " and ".join(str(parsed.directory / name) for name in changed)
        reason = f"{named} would lose changes: write to another directory, or add --overwrite"
        raise invalid("cleancut assets", reason)
    for path in write_assets(parsed.directory):
        print(f"wrote {path}: {ASSETS[path.name]}")
    return OK
