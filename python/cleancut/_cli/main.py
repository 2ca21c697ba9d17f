"""The command `cleancut`: looks into checkpoints, changes them, and prints a configuration."""

import argparse
import os
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import pyarrow as pa

from cleancut._checkpoint.checkpoint import Checkpoint
from cleancut._checkpoint.retain.expiry import Expiry
from cleancut._cli.arguments import access, add_into, add_location, add_reader
from cleancut._cli.exporting import add_exporter
from cleancut._cli.flowing import FlowCommands
from cleancut._cli.passes import repeat
from cleancut._cli.statuses import BUG, DAMAGED, INTERRUPTED, OK, REFUSED, TRY_AGAIN
from cleancut._cli.watching import add_top
from cleancut._display.info_list import InfoList
from cleancut._display.printed import print_json, print_list, print_plan, print_rows
from cleancut._format.ages import epoch_or_time
from cleancut._operations.compatible import compatible
from cleancut._operations.offline import (
    Plan,
    adopt,
    check_clone,
    check_location,
    check_partitions,
    clone,
    release,
    rescale,
    rollback,
)
from cleancut._packages import extra_package
from cleancut._query.named_query import named_query
from cleancut._session.class_path import listed
from cleancut._session.jars import jar_paths
from cleancut._session.options import OPTIONS, Options
from cleancut._session.session import configure
from cleancut._session.settings import CONNECT_CLASS, CONNECT_KEY, confs_of, problems_of
from cleancut._unsafe_rows.encoded import Texts
from cleancut._version import __version__
from cleancut.dataflow._dataflow import Dataflow
from cleancut.errors import CleancutError, CorruptedError, InternalError, RetryableError, error_of

# The statuses are known by these names, too.
__all__ = ["BUG", "DAMAGED", "INTERRUPTED", "OK", "REFUSED", "TRY_AGAIN", "main"]

_STATUSES: Mapping[type[CleancutError], int] = {
    CorruptedError: DAMAGED,
    RetryableError: TRY_AGAIN,
    InternalError: BUG,
    CleancutError: REFUSED,
}

_DEFAULT_LIMIT = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: those of the command line; None takes them from the process.

    Returns:
        The exit status: 0 for success, 1 where the checkpoint is damaged, 2 where the request
        cannot be met, 70 for a bug, 75 where the store cannot answer now, 130 for an interrupt.
    """
    parsed = _parser().parse_args(arguments)
    try:
        status = int(parsed.run(parsed))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read the output has seen enough, as `head` does; Python must not flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except CleancutError as error:
        print(error, file=sys.stderr)
        return next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    except OSError as error:
        print(f"The checkpoint cannot be read: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        print("This is a bug of the command cleancut: please report it.", file=sys.stderr)
        return BUG


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cleancut", description=__doc__)
    parser.add_argument("--version", action="version", version=f"cleancut {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_conf(commands)
    listing = add_reader(commands, "ls", "list the cuts of a checkpoint; without any, its stores")
    what = listing.add_mutually_exclusive_group()
    what.add_argument("--stores", action="store_true", help="list the state stores")
    what.add_argument("--savepoints", action="store_true", help="list the savepoints")
    what.add_argument("--replicas", action="store_true", help="list the copies that are kept up")
    listing.set_defaults(run=_ls)
    show = add_reader(commands, "show", "show one cut: stores, offsets, watermark, commit entry")
    which = show.add_mutually_exclusive_group()
    which.add_argument("--epoch", type=int, help="default: the last that has a cut")
    which.add_argument("--savepoint", help="the cut that is kept by this name")
    show.set_defaults(run=_show)
    history = add_reader(commands, "history", "list what each epoch cost: time, requests, bytes")
    since = "the first epoch, or its time in UTC: 120, 2026-11-26T08:00; default: of the kept cuts"
    history.add_argument("--since", metavar="EPOCH|TIME", type=epoch_or_time, help=since)
    history.set_defaults(run=_history)
    costs = add_reader(commands, "costs", "estimate what the query costs in a day, on S3 and R2")
    costs.set_defaults(run=_costs)
    state = add_reader(commands, "state", "show the rows of one operator's state")
    _add_operator(state)
    _add_family(state)
    state.add_argument("--partition", type=int, help="only this partition")
    when = state.add_mutually_exclusive_group()
    when.add_argument("--version", type=int, help="default: of the last cut, or of all partitions")
    when.add_argument("--epoch", type=int, help="the epoch whose result is shown")
    when.add_argument("--savepoint", help="the savepoint that is shown")
    state.add_argument("--limit", type=_row_count, default=_DEFAULT_LIMIT, help="rows to show")
    state.set_defaults(run=_state)
    families = add_reader(commands, "families", "list the column families of a state store")
    _add_operator(families)
    _add_store(families)
    families.set_defaults(run=_families)
    _add_comparisons(commands)
    _add_checks(commands)
    _add_replicas(commands)
    _add_expiry(commands)
    pinning = add_reader(commands, "savepoint", "keep a cut under a name, running query or not")
    pinning.add_argument("name", metavar="NAME", help="letters, digits, dashes and underscores")
    pinning.add_argument("--epoch", type=int, help="default: the last that has a cut")
    pinning.set_defaults(run=_savepoint)
    dropping = add_reader(commands, "drop-savepoint", "give a savepoint up")
    dropping.add_argument("name", metavar="NAME", help="what it is called")
    dropping.set_defaults(run=_drop_savepoint)
    _add_act(commands, "adopt", "make the state of another provider Cleancut's")
    _add_act(commands, "release", "make Cleancut's state that of Spark's RocksDB provider")
    _add_references(commands)
    cloning = _add_act(
        commands, "clone", "make another checkpoint of it; with cuts the query may run on"
    )
    cloning.add_argument("into", metavar="INTO", help="where, which is to be empty")
    _add_state(cloning.add_mutually_exclusive_group(), "at")
    cloning.add_argument("--same-query", action="store_true", help="keep the id of the query")
    cloning.add_argument("--cuts", choices=("true", "false"), help="default: as it is now")
    cloning.add_argument(
        "--provider", choices=("cleancut", "rocksdb"), help="default: as it is now"
    )
    cloning.add_argument("--partitions", type=int, help="default: as there are now")
    add_into(cloning)
    _add_compatible(commands)
    add_exporter(commands)
    add_top(commands)
    FlowCommands(Dataflow, _add_spark, _session).add(commands)
    completing = commands.add_parser("completion", help="print what completes commands in a shell")
    completing.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="for this shell")
    completing.set_defaults(run=_completion)
    return parser


def _add_compatible(commands: Any) -> None:
    text = "tell whether a query can go on from a checkpoint; exit with 2 if not"
    asking = commands.add_parser(
        "compatible",
        help=text,
        description=f"{text}. It starts Spark in this process, has your function make the query, "
        "and starts nothing.",
    )
    add_location(asking)
    asking.add_argument(
        "--query",
        required=True,
        metavar="MODULE:FUNCTION",
        help="takes a SparkSession and gives the streaming DataFrame that would be written",
    )
    modes = ("append", "update", "complete")
    asking.add_argument("--output-mode", choices=modes, default="append", help="default: append")
    _add_spark(asking)
    asking.set_defaults(run=_compatible, act="compatible")


def _add_checks(commands: Any) -> None:
    verify = add_reader(commands, "verify", "check every byte; exit with 1 on damage")
    verify.set_defaults(run=_verify)
    drilling = add_reader(
        commands, "drill", "prove that the last cut can be restored; exit with 1 if it cannot"
    )
    drilling.add_argument("--at", type=_state_name, help="another: an epoch, or a savepoint")
    drilling.add_argument("--list", action="store_true", help="only list what was proven")
    drilling.set_defaults(run=_drill)
    restore = add_reader(
        commands, "restore-metadata", "write Spark's file `metadata` anew, from the last cut"
    )
    restore.set_defaults(run=_restore_metadata)


def _add_replicas(commands: Any) -> None:
    copying = add_reader(commands, "replicate", "bring a copy up to the last cut, somewhere else")
    copying.add_argument("into", metavar="INTO", help="where the copy is, or is to be")
    add_into(copying)
    copying.add_argument(
        "--no-note", action="store_true", help="only read LOCATION, and note nothing there"
    )
    copying.add_argument("--every", type=float, metavar="SECONDS", help="again and again")
    copying.set_defaults(run=_replicate)
    fencing = add_reader(commands, "fence", "end the run that owns the query, for a fail-over")
    fencing.add_argument("--why", required=True, help="what the error of that run tells")
    fencing.set_defaults(run=_fence)


def _add_expiry(commands: Any) -> None:
    expiring = add_reader(commands, "expire", "give up old cuts; with --apply, else only a plan")
    expiring.add_argument("--keep", type=int, metavar="N", help="how many of the last cuts stay")
    expiring.add_argument("--younger-than", metavar="AGE", help="cuts of this age stay: 7d, 36h")
    expiring.set_defaults(plan=_expiry_of)
    sweeping = add_reader(
        commands, "sweep", "delete what no cut needs; with --apply, else only a plan"
    )
    sweeping.set_defaults(plan=lambda parsed: _checkpoint(parsed).sweep())
    for parser in (expiring, sweeping):
        parser.add_argument("--apply", action="store_true", help="do it; the query must be stopped")
        parser.add_argument("--fence", metavar="WHY", help="take the query from a run that died")
        parser.set_defaults(run=_expire)


def _add_comparisons(commands: Any) -> None:
    state = "a number is an epoch, and stands for the state after it; all else a savepoint"
    diff = add_reader(commands, "diff", "count the keys in which two states differ")
    diff.add_argument("before", metavar="BEFORE", type=_state_name, help=state)
    diff.add_argument(
        "after", metavar="AFTER", type=_state_name, nargs="?", help="default: the last"
    )
    diff.add_argument("--operator", type=int, help="show the keys of this one")
    _add_family(diff)
    diff.add_argument("--limit", type=_row_count, default=_DEFAULT_LIMIT, help="keys to show")
    diff.set_defaults(run=_diff)
    lookup = add_reader(commands, "lookup", "show what one key has")
    lookup.add_argument(
        "--key",
        metavar="VALUE",
        nargs="*",
        required=True,
        help="of each column of the key, in order; a window as JSON, bytes in hexadecimal",
    )
    _add_operator(lookup)
    _add_family(lookup)
    lookup.add_argument("--at", type=_state_name, help=f"{state}; default: the last")
    lookup.set_defaults(run=_lookup)
    skew = add_reader(commands, "skew", "show how unevenly state lies over partitions")
    skew.add_argument("--at", type=_state_name, help=f"{state}; default: the last")
    skew.set_defaults(run=_skew)
    flying = add_reader(commands, "in-flight", "show the rows that an unaligned cut has in flight")
    _add_operator(flying)
    flying.add_argument("--side", type=int, default=0, help="1 is the right side of a join")
    flying.add_argument("--at", type=_state_name, help=f"{state}; default: the last")
    flying.add_argument("--limit", type=_row_count, default=_DEFAULT_LIMIT, help="rows to show")
    flying.set_defaults(run=_in_flight)


def _add_operator(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operator", type=int, required=True, help="Spark's operator id")


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", default="default", help="Spark's name of the store")


def _add_family(parser: argparse.ArgumentParser) -> None:
    """One of a store, which is named too."""
    _add_store(parser)
    parser.add_argument("--family", default="default", help="the column family, as `families` says")


def _state_name(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _row_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number of rows, from 0 on")
    return int(text)


def _add_references(commands: Any) -> None:
    """The acts that need not copy rows."""
    rescaling = _add_act(commands, "rescale", "spread state over another number of partitions")
    rescaling.add_argument("--partitions", type=int, required=True, help="from 1 on")
    back = _add_act(commands, "rollback", "have it go on from an earlier state")
    to = back.add_mutually_exclusive_group(required=True)
    _add_state(to, "to")
    to.add_argument("--undo", action="store_true", help="the state before the last rollback")
    what = "copy all rows, also where stores could refer to them"
    for parser in (rescaling, back):
        parser.add_argument("--rewrite", action="store_true", help=what)


def _add_state(group: Any, word: str) -> None:
    group.add_argument(f"--{word}-epoch", type=int, metavar="EPOCH", help="that after this epoch")
    group.add_argument(f"--{word}-savepoint", metavar="NAME", help="that which this one keeps")
    group.add_argument(
        f"--{word}-time",
        type=datetime.fromisoformat,
        metavar="TIME",
        help="that of then, as 2026-11-25T14:00 or 2026-11-25T14:00+01:00",
    )


def _add_conf(commands: Any) -> None:
    conf = commands.add_parser(
        "conf",
        help="print the configuration for spark-submit",
        description="Prints the configuration for spark-submit. The options are those of "
        "cleancut.configure; docs/reference/configuration.md says what each is for.",
    )
    conf.add_argument(
        "--format",
        choices=("submit", "line", "properties", "json"),
        default="submit",
        help="submit is to be pasted, line is the same for $(...); properties, json: keys alone",
    )
    for option in OPTIONS:
        # A switch alone turns on what it names.
        alone: dict[str, Any] = {"nargs": "?", "const": "true"} if option.is_switch else {}
        text = f"{option.text} {option.rule.allowed[0].upper()}{option.rule.allowed[1:]}."
        conf.add_argument(option.flag, metavar="VALUE", help=text, **alone)
    conf.set_defaults(run=_conf)
    jars = commands.add_parser("jars", help="print the paths of the jars for the installed Spark")
    jars.add_argument(
        "--separator", default="\n", help="what stands between them; a line each without"
    )
    jars.set_defaults(run=_jars)


def _add_act(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=f"{text}; prints a plan, and does it with --apply",
        description=f"For a query that is stopped: {text}. It starts Spark in this process. "
        "Without --apply it prints what it would do, and changes nothing.",
    )
    add_location(parser)
    parser.add_argument("--apply", action="store_true", help="do it")
    if name in ("clone", "rollback"):
        what = "continue without the rows of input files that do not exist any more"
        parser.add_argument("--allow-missing-input", action="store_true", help=what)
    # A clone leaves the query as it is.
    if name != "clone":
        parser.add_argument(
            "--file-sink",
            metavar="PATH",
            help="what the query writes to, where its sink is Spark's own of files",
        )
    _add_spark(parser)
    parser.set_defaults(run=_act, act=name)
    return parser


def _add_spark(parser: argparse.ArgumentParser) -> None:
    """How the session is made, and how the answer is printed."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--master", default="local[*]", help="Spark's master; default: local[*]")
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark, such as the options of a file system; may be repeated",
    )


def _checkpoint(parsed: argparse.Namespace) -> Checkpoint:
    return Checkpoint(parsed.location, **access(parsed))


def _conf(parsed: argparse.Namespace) -> int:
    texts = {option: getattr(parsed, option.name) for option in OPTIONS}
    parsed_texts = {of.name: of.parse(text) for of, text in texts.items() if text is not None}
    options = cast("Options", parsed_texts)
    problems = problems_of(options)
    if problems:
        raise error_of("CLEANCUT_CONF_INVALID", problems=" ".join(problems))
    confs, jars = {CONNECT_KEY: CONNECT_CLASS} | confs_of(options), listed(jar_paths())
    if parsed.format in ("submit", "line"):
        lines = [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in confs.items()]
        between = " \\\n" if parsed.format == "submit" else " "
        print(between.join([f"--jars {shlex.quote(jars)}", *lines]))
    elif parsed.format == "properties":
        print("\n".join(f"{key} {value}" for key, value in [("spark.jars", jars), *confs.items()]))
    else:
        print_json({"spark.jars": jars, **confs})
    return OK


def _jars(parsed: argparse.Namespace) -> int:
    print(parsed.separator.join(jar_paths()))
    return OK


def _completion(parsed: argparse.Namespace) -> int:
    extra_package("shtab", feature="cleancut completion", package="shtab", extra="completion")
    import shtab

    print(shtab.complete(_parser(), parsed.shell))
    return OK


def _ls(parsed: argparse.Namespace) -> int:
    checkpoint = _checkpoint(parsed)
    found: InfoList[Any]
    if parsed.savepoints:
        found = checkpoint.savepoints()
    elif parsed.replicas:
        found = checkpoint.replicas()
    elif parsed.stores:
        found = checkpoint.stores()
    else:
        found = checkpoint.cuts() or checkpoint.stores()
    print_list(found, parsed)
    return OK


def _show(parsed: argparse.Namespace) -> int:
    cut = _checkpoint(parsed).cut(parsed.epoch, savepoint=parsed.savepoint)
    if parsed.json:
        print_json(cut.to_dict())
    else:
        print(cut)
    return OK


def _history(parsed: argparse.Namespace) -> int:
    print_list(_checkpoint(parsed).history(parsed.since), parsed)
    return OK


def _costs(parsed: argparse.Namespace) -> int:
    print_list(_checkpoint(parsed).cost_per_day(), parsed)
    return OK


def _state(parsed: argparse.Namespace) -> int:
    table = _checkpoint(parsed).state(
        parsed.operator,
        limit=parsed.limit + 1,
        store=parsed.store,
        version=parsed.version,
        epoch=parsed.epoch,
        savepoint=parsed.savepoint,
        partition=parsed.partition,
        family=parsed.family,
    )
    version = int(table.schema.metadata[b"cleancut.version"])
    print_rows(table, parsed, "rows", f" of version {version}", version=version)
    return OK


def _lookup(parsed: argparse.Namespace) -> int:
    try:
        table = _checkpoint(parsed).lookup(
            parsed.operator,
            Texts(parsed.key),
            store=parsed.store,
            family=parsed.family,
            at=parsed.at,
        )
    except TypeError as error:
        print(error, file=sys.stderr)
        return REFUSED
    parsed.limit = table.num_rows
    version = int(table.schema.metadata[b"cleancut.version"])
    print_rows(table, parsed, "rows", f" of version {version}", version=version)
    return OK


def _diff(parsed: argparse.Namespace) -> int:
    checkpoint = _checkpoint(parsed)
    if parsed.operator is None:
        print_list(checkpoint.diff(parsed.before, parsed.after), parsed)
        return OK
    found = checkpoint.changes(
        parsed.operator, parsed.before, parsed.after, store=parsed.store, family=parsed.family
    )
    # No more are taken than are shown, and one to tell whether there are others.
    batches, wanted = [], parsed.limit + 1
    for batch in found:
        batches.append(batch.slice(0, wanted))
        wanted -= batches[-1].num_rows
        if wanted == 0:
            break
    table = pa.Table.from_batches(batches, found.schema)
    print_rows(table, parsed, "keys", " that differ")
    return OK


def _skew(parsed: argparse.Namespace) -> int:
    print_list(_checkpoint(parsed).skew(parsed.at), parsed)
    return OK


def _in_flight(parsed: argparse.Namespace) -> int:
    table = _checkpoint(parsed).in_flight(parsed.operator, side=parsed.side, at=parsed.at)
    print_rows(table, parsed, "rows", " in flight")
    return OK


def _families(parsed: argparse.Namespace) -> int:
    print_list(_checkpoint(parsed).families(parsed.operator, store=parsed.store), parsed)
    return OK


def _drill(parsed: argparse.Namespace) -> int:
    checkpoint = _checkpoint(parsed)
    if parsed.list:
        print_list(checkpoint.proofs(), parsed)
        return OK
    print_list(InfoList([checkpoint.drill(parsed.at)]), parsed)
    return OK


def _replicate(parsed: argparse.Namespace) -> int:
    def one_pass() -> None:
        checkpoint = _checkpoint(parsed)
        found = checkpoint.replicate(
            parsed.into, note=not parsed.no_note, **access(parsed, "into_")
        )
        print_list(InfoList([found]), parsed)

    return repeat(one_pass, parsed.every)


def _fence(parsed: argparse.Namespace) -> int:
    generation = _checkpoint(parsed).fence(parsed.why)
    if parsed.json:
        print_json({"generation": generation})
    else:
        print(f"Generation {generation} owns {parsed.location}: no run before commits any more.")
    return OK


def _expiry_of(parsed: argparse.Namespace) -> Expiry:
    return _checkpoint(parsed).expire(keep=parsed.keep, younger_than=parsed.younger_than)


def _expire(parsed: argparse.Namespace) -> int:
    try:
        plan = parsed.plan(parsed)
    except ValueError as error:
        print(error, file=sys.stderr)
        return REFUSED
    print_plan(plan.apply(fence=parsed.fence) if parsed.apply else plan, parsed)
    return OK


def _restore_metadata(parsed: argparse.Namespace) -> int:
    query = _checkpoint(parsed).restore_metadata()
    if parsed.json:
        print_json({"query_id": query})
    else:
        print(f"{parsed.location} is the checkpoint of the query {query}")
    return OK


def _savepoint(parsed: argparse.Namespace) -> int:
    epoch = _checkpoint(parsed).pin(parsed.name, parsed.epoch)
    if parsed.json:
        print_json({"savepoint": parsed.name, "epoch": epoch})
    else:
        print(f"the cut of epoch {epoch} is kept as {parsed.name}")
    return OK


def _drop_savepoint(parsed: argparse.Namespace) -> int:
    was_there = _checkpoint(parsed).unpin(parsed.name)
    if parsed.json:
        print_json({"savepoint": parsed.name, "dropped": was_there})
    else:
        print(f"{parsed.name} is given up" if was_there else f"there is no savepoint {parsed.name}")
    return OK if was_there else REFUSED


def _act(parsed: argparse.Namespace) -> int:
    # Before Spark starts, which takes seconds.
    check_location(parsed.act, parsed.location)
    if parsed.act == "rescale":
        check_partitions("rescale", parsed.location, parsed.partitions)
    elif parsed.act == "clone":
        check_clone(
            parsed.location,
            cuts=parsed.cuts == "true",
            provider=parsed.provider,
            partitions=parsed.partitions,
        )
    session = _session(parsed)
    try:
        plan = _plan(parsed, session)
        if parsed.apply:
            plan = plan.apply(session)
    finally:
        session.stop()
    print_plan(plan, parsed)
    return OK


def _compatible(parsed: argparse.Namespace) -> int:
    session = _session(parsed)
    try:
        query = named_query(parsed.query, session, parsed.location)
        found = compatible(parsed.location, query, parsed.output_mode)
    finally:
        session.stop()
    if parsed.json:
        print_json(found.to_dict())
    else:
        print(found)
    return OK if found else REFUSED


def _plan(parsed: argparse.Namespace, session: Any) -> Plan:
    location, sink = parsed.location, getattr(parsed, "file_sink", None)
    if parsed.act == "rescale":
        return rescale(location, parsed.partitions, session, file_sink=sink, rewrite=parsed.rewrite)
    if parsed.act == "rollback":
        to = _state_of(parsed, "to")
        return rollback(
            location,
            to,
            undo=parsed.undo,
            session=session,
            file_sink=sink,
            rewrite=parsed.rewrite,
            allow_missing_input=parsed.allow_missing_input,
        )
    if parsed.act == "clone":
        return clone(
            location,
            parsed.into,
            _state_of(parsed, "at"),
            session=session,
            same_query=parsed.same_query,
            cuts=None if parsed.cuts is None else parsed.cuts == "true",
            provider=parsed.provider,
            partitions=parsed.partitions,
            allow_missing_input=parsed.allow_missing_input,
            into_access=access(parsed, "into_"),
        )
    return {"adopt": adopt, "release": release}[parsed.act](location, session, file_sink=sink)


def _state_of(parsed: argparse.Namespace, word: str) -> Any:
    given = (getattr(parsed, f"{word}_{kind}") for kind in ("epoch", "savepoint", "time"))
    return next((of for of in given if of is not None), None)


def _session(parsed: argparse.Namespace) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(parsed.master).appName(f"cleancut {parsed.act}")
    builder = builder.config("spark.ui.enabled", "false")
    for setting in parsed.conf:
        key, equals, value = setting.partition("=")
        if not equals:
            raise error_of("CLEANCUT_CONF_INVALID", problems=f"--conf {setting}: no KEY=VALUE")
        builder = builder.config(key, value)
    session = configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _verify(parsed: argparse.Namespace) -> int:
    report = _checkpoint(parsed).verify()
    if parsed.json:
        print_json(report.to_dict())
    else:
        print(report)
    if report.problems:
        return DAMAGED
    return OK if report.ok else REFUSED
