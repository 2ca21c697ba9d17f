"""The command `cleancut savepoint`: creates, drops and lists savepoints."""

import argparse
from typing import Any

from cleancut._cli.arguments import add_reader, checkpoint_of
from cleancut._cli.parsers import add_command
from cleancut._cli.statuses import OK, REFUSED
from cleancut._display.output import print_json, print_list
from cleancut.errors import error_of


def add_savepoints(commands: Any) -> None:
    """Adds the commands."""
    text = "create, drop and list savepoints; the query may run"
    savepoints = add_command(commands, "savepoint", text).add_subparsers(
        required=True, metavar="COMMAND"
    )
    creating = add_reader(savepoints, "create", "retain a cut under a name")
    creating.add_argument("name", metavar="NAME", help="letters, digits, dashes and underscores")
    creating.add_argument("--epoch", type=int, help="default: the last that has a cut")
    creating.set_defaults(run=_create_savepoint)
    dropping = add_reader(savepoints, "drop", "drop a savepoint")
    dropping.add_argument("name", metavar="NAME", help="name of the savepoint")
    dropping.set_defaults(run=_drop_savepoint)
    listing = add_reader(savepoints, "list", "list the savepoints")
    listing.set_defaults(run=_list_savepoints)


def _create_savepoint(parsed: argparse.Namespace) -> int:
    epoch = checkpoint_of(parsed).create_savepoint(parsed.name, parsed.epoch)
    if parsed.json:
        print_json({"savepoint": parsed.name, "epoch": epoch})
    else:
        print(f"savepoint {parsed.name} retains the cut of epoch {epoch}")
    return OK


def _drop_savepoint(parsed: argparse.Namespace) -> int:
    checkpoint = checkpoint_of(parsed)
    existed = checkpoint.drop_savepoint(parsed.name)
    if parsed.json:
        print_json({"savepoint": parsed.name, "dropped": existed})
    elif existed:
        print(f"{parsed.name} is dropped")
    else:
        names = ", ".join(savepoint.name for savepoint in checkpoint.savepoints())
        raise error_of(
            "CLEANCUT_STATE_NOT_FOUND",
            location=parsed.location,
            wanted=f"savepoint {parsed.name}",
            available=f"savepoints {names}" if names else "no savepoint",
        )
    return OK if existed else REFUSED


def _list_savepoints(parsed: argparse.Namespace) -> int:
    print_list(checkpoint_of(parsed).savepoints(), parsed)
    return OK
