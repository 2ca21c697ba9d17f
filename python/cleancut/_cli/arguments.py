"""What several commands take: a place, and how its store is reached."""

import argparse
from typing import Any

# How a store is reached: of LOCATION, and with "into_" before it, of INTO.
_ACCESS = ("endpoint", "region", "profile", "access_point", "requester_pays", "encryption")


def add_location(parser: argparse.ArgumentParser, **kind: Any) -> None:
    """The place of a query; with `nargs`, of several."""
    location: Any = parser.add_argument(
        "location", metavar="LOCATION", help="a query's checkpointLocation", **kind
    )
    # What shtab reads.
    location.complete = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/", "tcsh": "d"}


def add_reader(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    """A command that looks into a checkpoint."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text)
    add_location(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_access(parser)
    return parser


def add_access(parser: argparse.ArgumentParser) -> None:
    """How the store of a location is reached."""
    parser.add_argument("--endpoint", help="for s3://: the URL of the store")
    parser.add_argument("--region", help="for s3://: what requests are signed for")
    parser.add_argument("--access-point", help="for s3://: its ARN, in place of the bucket")
    parser.add_argument("--requester-pays", action="store_true", help="for s3://: who asks pays")
    parser.add_argument("--encryption", help="for s3://: customer:<file> with the key of objects")
    parser.add_argument("--profile", help="for s3://: of the AWS configuration: whose credentials")


def add_into(parser: argparse.ArgumentParser) -> None:
    """How the store of the other place is reached."""
    place = parser.add_argument_group("where INTO is on s3://")
    place.add_argument("--into-endpoint", help="the URL of its store")
    place.add_argument("--into-region", help="what requests there are signed for")
    place.add_argument("--into-profile", help="of the AWS configuration: whose credentials")
    place.add_argument("--into-access-point", help="its ARN, in place of the bucket")
    place.add_argument("--into-requester-pays", action="store_true", help="who asks pays")
    place.add_argument("--into-encryption", help="s3, kms, kms:<key> or customer:<file>")


def access(parsed: argparse.Namespace, of: str = "") -> dict[str, Any]:
    """How a store is reached; of options whose names begin so."""
    return {name: getattr(parsed, f"{of}{name}") for name in _ACCESS}


def seconds(text: str) -> float:
    """A time that something waits for."""
    found = float(text)
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: more than 0 seconds are wanted")
    return found
