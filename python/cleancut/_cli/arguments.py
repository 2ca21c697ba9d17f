"""Arguments that several commands have."""

import argparse
from typing import Any, cast, get_type_hints

from cleancut._checkpoint.checkpoint import Checkpoint
from cleancut._storage.access import S3_OPTIONS, S3Options


def add_location(parser: argparse.ArgumentParser, **kind: Any) -> None:
    """The location of a checkpoint; with `nargs`, of several."""
    location: Any = parser.add_argument(
        "location", metavar="LOCATION", help="a query's checkpointLocation", **kind
    )
    # What shtab reads.
    location.complete = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/", "tcsh": "d"}


def add_reader(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    """A command that reads a checkpoint."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text)
    add_location(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_access(parser)
    return parser


def add_access(parser: argparse.ArgumentParser) -> None:
    """How the bucket of a location is reached."""
    _add_options(parser.add_argument_group("where LOCATION is on s3://"), "")


def add_target(parser: argparse.ArgumentParser) -> None:
    """How the bucket of the target is reached."""
    _add_options(parser.add_argument_group("where TARGET is on s3://"), "target_")


def _add_options(group: Any, prefix: str) -> None:
    types = get_type_hints(S3Options)
    for name, text in S3_OPTIONS.items():
        flag = f"--{prefix}{name}".replace("_", "-")
        is_switch = types[name] is bool
        group.add_argument(flag, help=text, **({"action": "store_true"} if is_switch else {}))


def access(parsed: argparse.Namespace, of: str = "") -> S3Options:
    """How a store is reached; of options whose names begin so. What is left out is not in it."""
    given = {name: getattr(parsed, f"{of}{name}") for name in S3_OPTIONS}
    return cast("S3Options", {name: value for name, value in given.items() if value})


def seconds(text: str) -> float:
    """A time that something waits for."""
    found = float(text)
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: more than 0 seconds are wanted")
    return found


def checkpoint_of(parsed: argparse.Namespace) -> Checkpoint:
    """The checkpoint of a command that `add_reader` has added."""
    return Checkpoint(parsed.location, **access(parsed))


def number_or_name(text: str) -> int | str:
    """An epoch or the name of a savepoint; of a dataflow, the number of a cut or such a name."""
    return int(text) if text.isdecimal() else text
