"""The command `cleancut dataflow`: inspects a dataflow, makes cuts, rolls back, and clones."""

import argparse
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from cleancut._cli.arguments import access, add_access, number_or_name
from cleancut._cli.dataflow_page import add_page_options, show_page
from cleancut._cli.parsers import add_command, invalid
from cleancut._cli.statuses import DAMAGED, OK
from cleancut._display.info_list import InfoList
from cleancut._display.output import print_json, print_list, print_plan, print_result
from cleancut._session.options import access_keys
from cleancut.dataflow._flow import Flow
from cleancut.dataflow._operations.rollback import DataflowPlan
from cleancut.dataflow._store.store import refused

Session = Callable[[argparse.Namespace], Any]
# Operations on checkpoints, which start Spark.
_ROLLBACK, _CLONE = "rollback", "clone"
_PAGE = "page"
AddSpark = Callable[[argparse.ArgumentParser], None]


class DataflowCommands:
    """Adds the commands and runs them."""

    def __init__(self, flow: type[Flow], add_spark: AddSpark, session: Session) -> None:
        """Creates the commands.

        Args:
            flow: the class of dataflows.
            add_spark: adds the options of the Spark session of an operation.
            session: starts the session.
        """
        self._flow = flow
        self._add_spark = add_spark
        self._session = session

    def add(self, commands: Any) -> None:
        """Adds the commands to the parser."""
        parser = add_command(
            commands,
            "dataflow",
            "inspect several queries, make consistent cuts of all, roll back and clone",
            "A dataflow is a set of queries connected by channels. They may run, anywhere.",
        )
        place: Any = parser.add_argument(
            "location", metavar="LOCATION", help="location of the dataflow"
        )
        place.complete = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/", "tcsh": "d"}
        subcommands = parser.add_subparsers(required=True, metavar="COMMAND")
        for name, text, run in (
            (
                "status",
                "show the coordinator, members, edges, and the cut that could be made",
                _status,
            ),
            ("members", "list the members", lambda flow, parsed: _list(flow.members(), parsed)),
            (
                "edges",
                "list the channels between the members",
                lambda flow, parsed: _list(flow.edges(), parsed),
            ),
            (
                "cuts",
                "list the cuts of the dataflow",
                lambda flow, parsed: _list(flow.cuts(), parsed),
            ),
            (
                "history",
                "list the age of each member",
                lambda flow, parsed: _list(flow.history(), parsed),
            ),
        ):
            self._command(subcommands, name, text, run)
        text = "print the status of the dataflow as an HTML page, or serve it"
        add_page_options(self._command(subcommands, _PAGE, text, show_page))
        self._add_members(subcommands)
        self._add_cuts(subcommands)
        self._add_rollback(subcommands)
        self._add_clone(subcommands)

    def _command(self, subcommands: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
        parser = add_command(subcommands, name, text)
        if name in (_ROLLBACK, _CLONE):
            self._add_spark(parser)
            parser.add_argument("--apply", action="store_true", help="execute the plan")
            parser.add_argument(
                "--allow-missing-input",
                action="store_true",
                help="continue without the rows of input files that do not exist any more",
            )
            parser.set_defaults(operation=name)
        elif name != _PAGE:
            parser.add_argument("--json", action="store_true", help="print JSON")
        add_access(parser)

        def command(parsed: argparse.Namespace) -> int:
            try:
                return int(run(self._flow(parsed.location, **access(parsed)), parsed))
            except ValueError as error:
                raise invalid(parser.prog, error) from error

        parser.set_defaults(run=command)
        return parser

    def _add_members(self, subcommands: Any) -> None:
        adding = self._command(subcommands, "add", "add a query as a member", _add)
        adding.add_argument("name", metavar="NAME", help="letters, digits, dashes and underscores")
        adding.add_argument("checkpoint", metavar="CHECKPOINT", help="its checkpointLocation")
        removing = self._command(subcommands, "remove", "remove a member", _remove)
        removing.add_argument("name", metavar="NAME", help="name of the member")
        moving = self._command(
            subcommands, "move-channel", "record that a channel has moved", _move_channel
        )
        moving.add_argument("channel", metavar="CHANNEL", help="its location in the cuts")
        moving.add_argument("target", metavar="TARGET", help="its location now")

    def _add_cuts(self, subcommands: Any) -> None:
        cutting = self._command(subcommands, "cut", "make a cut of the dataflow now", _cut)
        cutting.add_argument("--name", help="create a savepoint of this name")
        cutting.add_argument(
            "--timeout",
            default="30s",
            metavar="TIME",
            help="how long to wait for members; default: 30s",
        )
        cutting.add_argument(
            "--no-wait", action="store_true", help="take what members have committed"
        )
        running = self._command(subcommands, "run", "make cuts of the dataflow until stopped", _run)
        running.add_argument("--interval", default="60s", metavar="TIME", help="default: 60s")
        running.add_argument("--poll", default="5s", metavar="TIME", help="default: 5s")
        running.add_argument("--timeout", default="30s", metavar="TIME", help="default: 30s")
        running.add_argument(
            "--retain-last", type=int, default=10, metavar="N", help="default: 10 cuts"
        )
        savepoints = add_command(
            subcommands, "savepoint", "create and drop savepoints"
        ).add_subparsers(required=True, metavar="COMMAND")
        naming = self._command(savepoints, "create", "retain a cut under a name", _create_savepoint)
        naming.add_argument("name", metavar="NAME", help="name of the savepoint")
        naming.add_argument(
            "--at", type=int, metavar="CUT", help="number of the cut; default: last"
        )
        dropping = self._command(savepoints, "drop", "drop a savepoint", _drop_savepoint)
        dropping.add_argument("name", metavar="NAME", help="name of the savepoint")
        for name, text, run in (
            ("show", "show a cut", _show),
            ("in-flight", "show the epochs on each edge, sent and not consumed", _in_flight),
            ("verify", "check that a cut is complete and consistent; exit with 1 if not", _verify),
            (
                "test-restore",
                "read all that a restart would read; exit with 1 if not",
                _test_restore,
            ),
        ):
            _add_at(self._command(subcommands, name, text, run), "at")
        expiring = self._command(
            subcommands, "expire", "delete old cuts; prints a plan without --apply", _expire
        )
        expiring.add_argument(
            "--retain-last", type=int, metavar="N", help="number of cuts to retain"
        )
        expiring.add_argument("--retain-for", metavar="AGE", help="retain younger cuts: 7d")
        expiring.add_argument("--apply", action="store_true", help="execute the plan")

    def _add_rollback(self, subcommands: Any) -> None:
        text = "roll all queries back to a cut; prints a plan without --apply"
        back = self._command(subcommands, _ROLLBACK, text, self._rollback)
        _add_at(back, "to")
        back.add_argument("--fence", metavar="REASON", help="fence runs that have not ended")

    def _add_clone(self, subcommands: Any) -> None:
        text = "create another dataflow from a cut; prints a plan without --apply"
        cloning = self._command(subcommands, _CLONE, text, self._clone)
        cloning.add_argument("target", metavar="TARGET", help="location of the new dataflow")
        _add_at(cloning, "at")
        cloning.add_argument(
            "--member",
            nargs=2,
            action="append",
            required=True,
            metavar=("NAME", "CHECKPOINT"),
            help="location of the new checkpoint of a member; once for each",
        )
        cloning.add_argument(
            "--channel",
            nargs=2,
            action="append",
            default=[],
            metavar=("CHANNEL", "TARGET"),
            help="location of the copy of a channel; once for each that a member writes",
        )

    def _rollback(self, flow: Any, parsed: argparse.Namespace) -> int:
        def plan(session: Any) -> DataflowPlan:
            plan_made: DataflowPlan = flow.rollback(
                parsed.to,
                session=session,
                allow_missing_input=parsed.allow_missing_input,
            )
            return plan_made

        return self._done(plan, parsed, fence=parsed.fence)

    def _clone(self, flow: Any, parsed: argparse.Namespace) -> int:
        def plan(session: Any) -> DataflowPlan:
            members, channels = _places(parsed.member, flow), _places(parsed.channel, flow)
            at = parsed.at
            plan_made: DataflowPlan = flow.clone(
                parsed.target,
                members,
                channels,
                at=at,
                session=session,
                allow_missing_input=parsed.allow_missing_input,
            )
            return plan_made

        return self._done(plan, parsed)

    def _done(
        self, plan: Callable[[Any], DataflowPlan], parsed: argparse.Namespace, **how: str | None
    ) -> int:
        """Prints a plan, or executes it. If planning fails, Spark is not started."""
        planned = plan(None)
        if parsed.apply:
            parsed.conf = [*self._settings(parsed), *parsed.conf]
            session = self._session(parsed)
            try:
                planned = plan(session).apply(**how)
            finally:
                session.stop()
        print_plan(planned, parsed)
        return OK

    def _settings(self, parsed: argparse.Namespace) -> list[str]:
        """Spark settings for the bucket that the options describe; --conf overrides them."""
        return [f"{key}={text}" for key, text in access_keys(access(parsed)).items()]


def _places(given: Sequence[Sequence[str]], flow: Flow) -> dict[str, str]:
    """The new location of each member, or of each channel."""
    targets: dict[str, str] = {}
    for name, place in given:
        if targets.setdefault(name, place) != place:
            reason = f"{name} has two targets, {targets[name]} and {place}"
            raise refused(flow.location, _CLONE, reason)
    return targets


def _add_at(parser: argparse.ArgumentParser, name: str) -> None:
    text = "number of a cut, or name of a savepoint; default: the last"
    parser.add_argument(f"--{name}", metavar="CUT", type=number_or_name, help=text)


def _list(infos: InfoList[Any], parsed: argparse.Namespace) -> int:
    print_list(infos, parsed)
    return OK


def _print(result: Any, parsed: argparse.Namespace) -> int:
    print_result(result, parsed)
    return OK


def _status(flow: Flow, parsed: argparse.Namespace) -> int:
    return _print(flow.status(), parsed)


def _add(flow: Flow, parsed: argparse.Namespace) -> int:
    return _list(InfoList([flow.add(parsed.name, parsed.checkpoint)]), parsed)


def _remove(flow: Flow, parsed: argparse.Namespace) -> int:
    return _gone(flow.remove(parsed.name), "remove", flow, parsed)


def _drop_savepoint(flow: Flow, parsed: argparse.Namespace) -> int:
    return _gone(flow.drop_savepoint(parsed.name), "savepoint drop", flow, parsed)


def _move_channel(flow: Flow, parsed: argparse.Namespace) -> int:
    flow.move_channel(parsed.channel, parsed.target)
    if parsed.json:
        print_json({"channel": parsed.channel, "target": parsed.target})
    else:
        print(f"{parsed.channel} has moved to {parsed.target}")
    return OK


def _gone(existed: bool, operation: str, flow: Flow, parsed: argparse.Namespace) -> int:
    """Reports a removed member or savepoint."""
    if not existed:
        raise refused(flow.location, operation, f"there is no {parsed.name}")
    if parsed.json:
        print_json({"operation": operation, "name": parsed.name})
    else:
        print(f"{parsed.name} is {'removed' if operation == 'remove' else 'dropped'}")
    return OK


def _cut(flow: Flow, parsed: argparse.Namespace) -> int:
    return _print(flow.cut(parsed.timeout, name=parsed.name, wait=not parsed.no_wait), parsed)


def _create_savepoint(flow: Flow, parsed: argparse.Namespace) -> int:
    return _print(flow.create_savepoint(parsed.name, parsed.at), parsed)


def _show(flow: Flow, parsed: argparse.Namespace) -> int:
    return _print(flow.get_cut(parsed.at), parsed)


def _in_flight(flow: Flow, parsed: argparse.Namespace) -> int:
    return _list(flow.in_flight(parsed.at), parsed)


def _verify(flow: Flow, parsed: argparse.Namespace) -> int:
    report = flow.verify(parsed.at)
    _print(report, parsed)
    return OK if report.ok else DAMAGED


def _test_restore(flow: Flow, parsed: argparse.Namespace) -> int:
    report = flow.test_restore(parsed.at)
    _print(report, parsed)
    return OK if report.ok else DAMAGED


def _expire(flow: Flow, parsed: argparse.Namespace) -> int:
    plan = flow.expire(retain_last=parsed.retain_last, retain_for=parsed.retain_for)
    print_plan(plan.apply() if parsed.apply else plan, parsed)
    return OK


def _run(flow: Flow, parsed: argparse.Namespace) -> int:
    """Runs until it is interrupted, gets SIGTERM, or fails."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    times = {name: getattr(parsed, name) for name in ("poll", "timeout")}
    with flow.run(parsed.interval, retain_last=parsed.retain_last, **times) as runs:
        print(f"making cuts of {flow.location}", flush=True)
        while runs.is_active and not ended.wait(0.2):
            pass
        error = runs.error()
    if error is not None:
        raise error
    return OK
