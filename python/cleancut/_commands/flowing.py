"""The command `cleancut flow`: looks at a dataflow, makes cuts of it, and goes back to one."""

import argparse
import signal
import threading
from collections.abc import Callable
from typing import Any

from cleancut._commands.arguments import access, add_access
from cleancut._commands.statuses import DAMAGED, OK, REFUSED
from cleancut._dataflow.flow import Flow
from cleancut._display.info_list import InfoList
from cleancut._display.printed import print_json, print_list, print_plan

Session = Callable[[argparse.Namespace], Any]
_RESTORE = "restore"
AddSpark = Callable[[argparse.ArgumentParser], None]


class FlowCommands:
    """Adds the commands, and runs them."""

    def __init__(self, flow: type[Flow], add_spark: AddSpark, session: Session) -> None:
        """Names what the commands need.

        Args:
            flow: the class of dataflows.
            add_spark: adds what says which Spark an act starts.
            session: starts it.
        """
        self._flow = flow
        self._add_spark = add_spark
        self._session = session

    def add(self, commands: Any) -> None:
        """Adds them to the others."""
        parser = commands.add_parser(
            "flow",
            help="look at several queries and their consistent cuts; make some, and go back to one",
            description="Looks at a dataflow, several queries that send to each other by channels, "
            "and makes consistent cuts of all of them. The queries may run, anywhere.",
        )
        place: Any = parser.add_argument(
            "location", metavar="LOCATION", help="where the dataflow keeps its cuts"
        )
        place.complete = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/", "tcsh": "d"}
        acts = parser.add_subparsers(required=True, metavar="ACT")
        for name, text, run in (
            ("status", "show coordinator, members, edges, and the cut that could be made", _status),
            ("members", "list the queries", lambda flow, of: _list(flow.members(), of)),
            ("edges", "list the channels between them", lambda flow, of: _list(flow.edges(), of)),
            ("cuts", "list the cuts of the dataflow", lambda flow, of: _list(flow.cuts(), of)),
            ("history", "list how old each member was", lambda flow, of: _list(flow.history(), of)),
        ):
            self._act(acts, name, text, run)
        self._add_members(acts)
        self._add_cuts(acts)
        self._add_restore(acts)

    def _act(self, acts: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = acts.add_parser(name, help=text)
        if name != _RESTORE:
            parser.add_argument("--json", action="store_true", help="print JSON")
        add_access(parser)

        def act(parsed: argparse.Namespace) -> int:
            return int(run(self._flow(parsed.location, **access(parsed)), parsed))

        parser.set_defaults(run=act)
        return parser

    def _add_members(self, acts: Any) -> None:
        adding = self._act(acts, "add", "make a query a member", _add)
        adding.add_argument("name", metavar="NAME", help="letters, digits, dashes and underscores")
        adding.add_argument("checkpoint", metavar="CHECKPOINT", help="its checkpointLocation")
        removing = self._act(acts, "remove", "have a query be a member no more", _remove)
        removing.add_argument("name", metavar="NAME", help="what it is called")

    def _add_cuts(self, acts: Any) -> None:
        cutting = self._act(acts, "cut", "make a cut of the dataflow now", _cut)
        cutting.add_argument("--name", help="what it is to be called, so that it stays")
        cutting.add_argument(
            "--timeout", default="30s", metavar="TIME", help="for which members are waited; 30s"
        )
        cutting.add_argument("--no-ask", action="store_true", help="take what is committed")
        running = self._act(acts, "run", "make cuts of the dataflow until it is stopped", _run)
        running.add_argument("--interval", default="60s", metavar="TIME", help="default: 60s")
        running.add_argument("--poll", default="5s", metavar="TIME", help="default: 5s")
        running.add_argument("--timeout", default="30s", metavar="TIME", help="default: 30s")
        running.add_argument("--keep", type=int, default=10, metavar="N", help="default: 10 cuts")
        naming = self._act(acts, "savepoint", "give a cut a name, by which it stays", _savepoint)
        naming.add_argument("name", metavar="NAME", help="what it is to be called")
        naming.add_argument("--number", type=int, help="of the cut; default: the last")
        dropping = self._act(acts, "drop-savepoint", "take a name away", _drop)
        dropping.add_argument("name", metavar="NAME", help="what it is called")
        for name, text, run in (
            ("show", "show a cut", _show),
            ("in-flight", "show what was sent and not consumed", _in_flight),
            ("verify", "check that a cut is whole and consistent; exit with 1 if not", _verify),
            ("drill", "prove that a cut can be restored; exit with 1 if it cannot", _drill),
        ):
            _add_at(self._act(acts, name, text, run), "at")
        expiring = self._act(acts, "expire", "give up old cuts; with --apply, else a plan", _expire)
        expiring.add_argument("--keep", type=int, metavar="N", help="how many of the last stay")
        expiring.add_argument("--younger-than", metavar="AGE", help="cuts of this age stay: 7d")
        expiring.add_argument("--apply", action="store_true", help="do it")

    def _add_restore(self, acts: Any) -> None:
        text = "have all queries go on from a cut; with --apply, else a plan"
        restoring = self._act(acts, _RESTORE, text, self._restore)
        _add_at(restoring, "to")
        restoring.add_argument("--apply", action="store_true", help="do it, by a Spark of its own")
        restoring.add_argument("--fence", metavar="WHY", help="take queries from runs that died")
        self._add_spark(restoring)
        restoring.set_defaults(act=_RESTORE)

    def _restore(self, flow: Any, parsed: argparse.Namespace) -> int:
        session = self._session(parsed) if parsed.apply else None
        plan = flow.restore(_which(parsed.to), session=session)
        print_plan(plan.apply(fence=parsed.fence) if parsed.apply else plan, parsed)
        return OK


def _add_at(parser: argparse.ArgumentParser, name: str) -> None:
    text = "the number of a cut, or its name; default: the last"
    parser.add_argument(f"--{name}", metavar="CUT", help=text)


def _which(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text


def _list(found: InfoList[Any], parsed: argparse.Namespace) -> int:
    print_list(found, parsed)
    return OK


def _told(found: Any, parsed: argparse.Namespace) -> int:
    if parsed.json:
        print_json(found.to_dict())
    else:
        print(found)
    return OK


def _status(flow: Flow, parsed: argparse.Namespace) -> int:
    return _told(flow.status(), parsed)


def _add(flow: Flow, parsed: argparse.Namespace) -> int:
    return _list(InfoList([flow.add(parsed.name, parsed.checkpoint)]), parsed)


def _remove(flow: Flow, parsed: argparse.Namespace) -> int:
    return _gone(flow.remove(parsed.name), f"{parsed.name} is no member any more", parsed.name)


def _drop(flow: Flow, parsed: argparse.Namespace) -> int:
    return _gone(flow.drop_savepoint(parsed.name), f"{parsed.name} is given up", parsed.name)


def _gone(was_there: bool, text: str, name: str) -> int:
    print(text if was_there else f"there is no {name}")
    return OK if was_there else REFUSED


def _cut(flow: Flow, parsed: argparse.Namespace) -> int:
    return _told(flow.cut(parsed.timeout, name=parsed.name, ask=not parsed.no_ask), parsed)


def _savepoint(flow: Flow, parsed: argparse.Namespace) -> int:
    return _told(flow.savepoint(parsed.name, parsed.number), parsed)


def _show(flow: Flow, parsed: argparse.Namespace) -> int:
    return _told(flow.at(_which(parsed.at)), parsed)


def _in_flight(flow: Flow, parsed: argparse.Namespace) -> int:
    return _list(flow.in_flight(_which(parsed.at)), parsed)


def _verify(flow: Flow, parsed: argparse.Namespace) -> int:
    report = flow.verify(_which(parsed.at))
    _told(report, parsed)
    return OK if report.ok else DAMAGED


def _drill(flow: Flow, parsed: argparse.Namespace) -> int:
    report = flow.drill(_which(parsed.at))
    _told(report, parsed)
    return OK if report.ok else DAMAGED


def _expire(flow: Flow, parsed: argparse.Namespace) -> int:
    plan = flow.expire(keep=parsed.keep, younger_than=parsed.younger_than)
    print_plan(plan.apply() if parsed.apply else plan, parsed)
    return OK


def _run(flow: Flow, parsed: argparse.Namespace) -> int:
    """Runs until it is interrupted, told to end, or has failed."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    times = {name: getattr(parsed, name) for name in ("poll", "timeout")}
    with flow.run(parsed.interval, keep=parsed.keep, **times) as runs:
        print(f"making cuts of {flow.location}", flush=True)
        while runs.is_active and not ended.wait(0.2):
            pass
        error = runs.error()
    if error is not None:
        raise error
    return OK
