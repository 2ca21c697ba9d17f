"""The command `cleancut flow`: looks at a dataflow, makes cuts, goes back to one, and clones it."""

import argparse
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from cleancut._cli.arguments import access, add_access
from cleancut._cli.flow_page import add_page_options, show_page
from cleancut._cli.statuses import DAMAGED, OK, REFUSED
from cleancut._display.info_list import InfoList
from cleancut._display.printed import print_json, print_list, print_plan
from cleancut._session.options import access_keys
from cleancut.dataflow._flow import Flow
from cleancut.dataflow._operations.acts import FlowPlan
from cleancut.dataflow._store.store import refused

Session = Callable[[argparse.Namespace], Any]
# Acts on checkpoints, by a Spark of their own.
_RESTORE, _CLONE = "restore", "clone"
_PAGE = "page"
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
            help="look at several queries and their consistent cuts; make, restore and clone them",
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
        text = "print all of that as a page of HTML, or serve it"
        add_page_options(self._act(acts, _PAGE, text, show_page))
        self._add_members(acts)
        self._add_cuts(acts)
        self._add_restore(acts)
        self._add_clone(acts)

    def _act(
        self, acts: Any, name: str, text: str, run: Any, aliases: Sequence[str] = ()
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = acts.add_parser(name, help=text, aliases=aliases)
        if name in (_RESTORE, _CLONE):
            self._add_spark(parser)
            parser.add_argument("--apply", action="store_true", help="do it, by a Spark of its own")
            parser.add_argument(
                "--allow-missing-input",
                action="store_true",
                help="continue without the rows of input files that do not exist any more",
            )
            parser.set_defaults(act=name)
        elif name != _PAGE:
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
        moving = self._act(acts, "move-channel", "note that a channel lies elsewhere", _move)
        moving.add_argument("channel", metavar="CHANNEL", help="where it was, as cuts have it")
        moving.add_argument("to", metavar="TO", help="where it lies now")

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
        restoring = self._act(acts, _RESTORE, text, self._restore, aliases=["rollback"])
        _add_at(restoring, "to")
        restoring.add_argument("--fence", metavar="WHY", help="take queries from runs that died")

    def _add_clone(self, acts: Any) -> None:
        text = "make another dataflow of a cut, beside this one; with --apply, else a plan"
        cloning = self._act(acts, _CLONE, text, self._clone)
        cloning.add_argument("into", metavar="INTO", help="where the new one is to keep its cuts")
        _add_at(cloning, "at")
        cloning.add_argument(
            "--member",
            nargs=2,
            action="append",
            required=True,
            metavar=("NAME", "CHECKPOINT"),
            help="where the new checkpoint of a query is to be; once for each",
        )
        cloning.add_argument(
            "--channel",
            nargs=2,
            action="append",
            default=[],
            metavar=("CHANNEL", "TO"),
            help="where the copy of a channel is to be; once for each that a query sends into",
        )

    def _restore(self, flow: Any, parsed: argparse.Namespace) -> int:
        def plan(session: Any) -> FlowPlan:
            found: FlowPlan = flow.restore(
                _which(parsed.to),
                session=session,
                allow_missing_input=parsed.allow_missing_input,
            )
            return found

        return self._done(plan, parsed, fence=parsed.fence)

    def _clone(self, flow: Any, parsed: argparse.Namespace) -> int:
        def plan(session: Any) -> FlowPlan:
            members, channels = _places(parsed.member, flow), _places(parsed.channel, flow)
            at = _which(parsed.at)
            found: FlowPlan = flow.clone(
                parsed.into,
                members,
                channels,
                at=at,
                session=session,
                allow_missing_input=parsed.allow_missing_input,
            )
            return found

        return self._done(plan, parsed)

    def _done(
        self, plan: Callable[[Any], FlowPlan], parsed: argparse.Namespace, **how: str | None
    ) -> int:
        """Prints a plan, or carries it out. Where none can be made, no Spark is started."""
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
        """What Spark is told of a store that the options say how to reach; --conf overrides it."""
        return [f"{key}={text}" for key, text in access_keys(access(parsed)).items()]


def _places(given: Sequence[Sequence[str]], flow: Flow) -> dict[str, str]:
    """The new place of each query, or of each channel."""
    found: dict[str, str] = {}
    for name, place in given:
        if found.setdefault(name, place) != place:
            reason = f"{name} has two new places, {found[name]} and {place}"
            raise refused(flow.location, _CLONE, reason)
    return found


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


def _move(flow: Flow, parsed: argparse.Namespace) -> int:
    flow.move_channel(parsed.channel, parsed.to)
    if parsed.json:
        print_json({"channel": parsed.channel, "to": parsed.to})
    else:
        print(f"{parsed.channel} lies at {parsed.to} now")
    return OK


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
