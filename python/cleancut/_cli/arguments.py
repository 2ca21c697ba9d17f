"""Arguments that several commands have."""

import argparse
from datetime import datetime
from typing import Any, cast, get_type_hints

from cleancut._checkpoint.checkpoint import Checkpoint
from cleancut._cli.parsers import add_command
from cleancut._format.ages import epoch_or_time
from cleancut._storage.access import S3_OPTIONS, S3Options
from cleancut.errors import error_of


def add_location(parser: argparse.ArgumentParser, **kind: Any) -> None:
    """Adds the location of a checkpoint; with `nargs`, of several."""
    location: Any = parser.add_argument(
        "location", metavar="LOCATION", help="a query's checkpointLocation", **kind
    )
    # Read by shtab.
    location.complete = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/", "tcsh": "d"}


def add_reader(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    """Adds a command that reads a checkpoint."""
    parser = add_command(commands, name, text)
    add_location(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_access(parser)
    return parser


def add_access(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the bucket of a location."""
    _add_options(parser.add_argument_group("where LOCATION is on s3://"), "")


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the bucket of the target."""
    _add_options(parser.add_argument_group("where TARGET is on s3://"), "target_")


def _add_options(group: Any, prefix: str) -> None:
    types = get_type_hints(S3Options)
    for name, text in S3_OPTIONS.items():
        flag = f"--{prefix}{name}".replace("_", "-")
        is_switch = types[name] is bool
        group.add_argument(flag, help=text, **({"action": "store_true"} if is_switch else {}))


def add_spark(parser: argparse.ArgumentParser, master: str | None) -> None:
    """Adds the options of the Spark session; the master is the default."""
    default = "Spark's own" if master is None else master
    parser.add_argument("--master", default=master, help=f"Spark's master; default: {default}")
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Spark setting; may be repeated",
    )


def configured(builder: Any, parsed: argparse.Namespace) -> Any:
    """The builder of a session with the settings of the command line."""
    if parsed.master is not None:
        builder = builder.master(parsed.master)
    for setting in parsed.conf:
        key, equals, value = setting.partition("=")
        if not equals:
            raise error_of("CLEANCUT_CONF_INVALID", problems=f"--conf {setting}: no KEY=VALUE")
        builder = builder.config(key, value)
    return builder


def access(parsed: argparse.Namespace, prefix: str = "") -> S3Options:
    """The bucket options whose names have a prefix, without those that were not given."""
    given = {name: getattr(parsed, f"{prefix}{name}") for name in S3_OPTIONS}
    return cast("S3Options", {name: value for name, value in given.items() if value})


def seconds(text: str) -> float:
    """A waiting time in seconds."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: must be more than 0 seconds")
    return value


def since_of(text: str) -> int | datetime:
    """An epoch or a time."""
    try:
        return epoch_or_time(text)
    except ValueError as error:
        reason = f"{text!r} is neither an epoch nor a time, such as 2026-11-26T08:00"
        raise argparse.ArgumentTypeError(reason) from error


def checkpoint_of(parsed: argparse.Namespace) -> Checkpoint:
    """The checkpoint of a command added by `add_reader`."""
    return Checkpoint(parsed.location, **access(parsed))


def number_or_name(text: str) -> int | str:
    """An epoch or the name of a savepoint; for a dataflow, a cut number or such a name."""
    return int(text) if text.isdecimal() else text
