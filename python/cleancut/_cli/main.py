"""The command `cleancut`: inspects and changes checkpoints, and prints a configuration."""

import argparse
import os
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from cleancut import _assets
from cleancut._checkpoint.retain.expiry import Expiry
from cleancut._cli.arguments import (
    access,
    add_location,
    add_reader,
    add_spark,
    add_target,
    checkpoint_of,
    configured,
    number_or_name,
    since_of,
)
from cleancut._cli.assets import add_assets
from cleancut._cli.dataflows import DataflowCommands
from cleancut._cli.exporter import add_exporter
from cleancut._cli.parsers import CommandParser, add_command, invalid, unavailable
from cleancut._cli.passes import repeat
from cleancut._cli.savepoints import add_savepoints
from cleancut._cli.statuses import BUG, DAMAGED, INTERRUPTED, OK, REFUSED, TRY_AGAIN
from cleancut._cli.successors import add_successors
from cleancut._cli.top import add_top
from cleancut._display.info_list import InfoList
from cleancut._display.output import print_json, print_list, print_plan, print_result, print_rows
from cleancut._error_catalog import SITE
from cleancut._operations.compatible import check_compatibility
from cleancut._operations.offline import (
    Plan,
    check_clone,
    check_location,
    check_partitions,
    clone,
    convert,
    rescale,
    rollback,
)
from cleancut._packages import extra_package
from cleancut._query.named_query import named_query
from cleancut._session.class_path import listed
from cleancut._session.jars import jar_paths
from cleancut._session.options import OPTIONS, PREFIX, Options
from cleancut._session.session import configure
from cleancut._session.settings import CONNECT_CLASS, CONNECT_KEY, confs_of, problems_of
from cleancut._unsafe_rows.encoder import Texts
from cleancut._version import __version__
from cleancut.dataflow._dataflow import Dataflow
from cleancut.errors import CleancutError, CorruptedError, InternalError, RetryableError, error_of

# Other modules import the statuses from here.
__all__ = ["BUG", "DAMAGED", "INTERRUPTED", "OK", "REFUSED", "TRY_AGAIN", "main"]

_STATUSES: Mapping[type[CleancutError], int] = {
    CorruptedError: DAMAGED,
    RetryableError: TRY_AGAIN,
    InternalError: BUG,
    CleancutError: REFUSED,
}

_DESCRIPTION = "Inspect and change checkpoints, and print a configuration for Spark."
_DEFAULT_LIMIT = 20
_NO_CUTS = (
    "{} has no cuts, so no epochs are recorded. To commit by cuts from the next epoch on, start the"
    f" query with {PREFIX}cuts=true; `cleancut conf --cuts true` prints all settings."
)
_PROVIDERS = ("cleancut", "rocksdb")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: those of the command line; None takes them from the process.

    Returns:
        The exit status: 0 for success, 1 if the checkpoint is corrupted, 2 if the request is
        refused, 3 if the query of the command has failed, 70 for a bug, 75 if the object store is
        unavailable, 130 for an interrupt.
    """
    parsed = _parser().parse_args(arguments)
    try:
        status = int(parsed.run(parsed))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe; Python must not flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except CleancutError as error:
        print(error, file=sys.stderr)
        return next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    except OSError as error:
        print(unavailable(f"cleancut {parsed.command}", error), file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        traceback.print_exc()
        detail = f"{type(error).__name__}: {error}".rstrip(".")
        command = f"cleancut {parsed.command}"
        print(error_of("CLEANCUT_COMMAND_FAILED", command=command, detail=detail), file=sys.stderr)
        return BUG


def _parser() -> CommandParser:
    parser = CommandParser(prog="cleancut", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"cleancut {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    _add_conf(commands)
    add_assets(commands)
    listing = add_reader(commands, "ls", "list the cuts of a checkpoint; without cuts, its stores")
    what = listing.add_mutually_exclusive_group()
    what.add_argument("--stores", action="store_true", help="list the state stores")
    what.add_argument("--replicas", action="store_true", help="list the recorded replicas")
    what.add_argument("--owners", action="store_true", help="list the last runs and their drivers")
    listing.set_defaults(run=_ls)
    show = add_reader(commands, "show", "show one cut: stores, offsets, watermark, commit entry")
    _add_at(show)
    show.set_defaults(run=_show)
    history = add_reader(commands, "history", "list the cost of each epoch: time, requests, bytes")
    since = "first epoch, or its time in UTC: 120, 2026-11-26T08:00; default: the retained cuts"
    history.add_argument("--since", metavar="EPOCH|TIME", type=since_of, help=since)
    history.set_defaults(run=_history)
    costs = add_reader(commands, "costs", "estimate the cost of the query per day, on S3 and R2")
    costs.set_defaults(run=_costs)
    state = add_reader(commands, "state", "show the rows of one operator's state")
    _add_operator(state)
    _add_family(state)
    state.add_argument("--partition", type=int, help="only this partition")
    when = state.add_mutually_exclusive_group()
    _add_at(when)
    when.add_argument("--version", type=int, help="a state version, in a checkpoint without cuts")
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
    add_savepoints(commands)
    converting = _add_operation(
        commands, "convert", "convert the state to another state store provider"
    )
    converting.add_argument("--provider", choices=_PROVIDERS, required=True, help="the new one")
    _add_referencing(commands)
    cloning = _add_operation(
        commands, "clone", "create another checkpoint with its state; with cuts the query may run"
    )
    cloning.add_argument("target", metavar="TARGET", help="location of the clone, an empty one")
    _add_state(cloning.add_mutually_exclusive_group(), "at")
    cloning.add_argument("--same-query", action="store_true", help="keep the query id")
    cloning.add_argument("--cuts", choices=("true", "false"), help="default: as in LOCATION")
    cloning.add_argument("--provider", choices=_PROVIDERS, help="default: as in LOCATION")
    cloning.add_argument("--partitions", type=int, help="default: as in LOCATION")
    add_target(cloning)
    _add_compatibility(commands)
    add_successors(commands)
    add_exporter(commands)
    add_top(commands)
    DataflowCommands(Dataflow, _add_spark, _session).add(commands)
    completing = add_command(commands, "completion", "print a completion script for a shell")
    completing.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="for this shell")
    completing.set_defaults(run=_completion)
    return parser


def _add_compatibility(commands: Any) -> None:
    text = "check whether a query can start on a checkpoint; exit with 2 if not"
    checking = add_command(
        commands,
        "check-compatibility",
        text,
        "Starts Spark in this process and calls your function to make the query, which is not "
        "started.",
    )
    add_location(checking)
    checking.add_argument(
        "--query",
        required=True,
        metavar="MODULE:FUNCTION",
        help="function from SparkSession to the streaming DataFrame that would be written",
    )
    modes = ("append", "update", "complete")
    checking.add_argument("--output-mode", choices=modes, default="append", help="default: append")
    _add_spark(checking)
    checking.set_defaults(run=_check_compatibility, operation="check-compatibility")


def _add_checks(commands: Any) -> None:
    verify = add_reader(commands, "verify", "check every byte; exit with 1 if one is corrupted")
    verify.set_defaults(run=_verify)
    testing = add_reader(
        commands, "test-restore", "read all that a restart would read; exit with 1 if it fails"
    )
    _add_at(testing)
    testing.add_argument("--list", action="store_true", help="only list recorded restore tests")
    testing.set_defaults(run=_test_restore)
    restore = add_reader(
        commands, "restore-metadata", "restore Spark's file `metadata` from the last cut"
    )
    restore.set_defaults(run=_restore_metadata)


def _add_replicas(commands: Any) -> None:
    copying = add_reader(commands, "replicate", "copy what is new to a replica")
    copying.add_argument("target", metavar="TARGET", help="location of the replica")
    add_target(copying)
    copying.add_argument(
        "--read-only", action="store_true", help="write no record of the replica into LOCATION"
    )
    copying.add_argument("--every", type=float, metavar="SECONDS", help="repeat")
    copying.set_defaults(run=_replicate)
    fencing = add_reader(commands, "fence", "stop the run that owns the query, for a failover")
    fencing.add_argument("--reason", required=True, help="text for the error of that run")
    fencing.set_defaults(run=_fence)


def _add_expiry(commands: Any) -> None:
    expiring = add_reader(commands, "expire", "delete old cuts; prints a plan without --apply")
    expiring.add_argument("--retain-last", type=int, metavar="N", help="number of cuts to retain")
    expiring.add_argument("--retain-for", metavar="AGE", help="retain younger cuts: 7d, 36h")
    expiring.set_defaults(plan=_expiry_of)
    collecting = add_reader(
        commands, "gc", "delete objects that no cut references; prints a plan without --apply"
    )
    collecting.set_defaults(plan=lambda parsed: checkpoint_of(parsed).collect_garbage())
    for parser in (expiring, collecting):
        applied = "execute the plan; the query must be stopped"
        parser.add_argument("--apply", action="store_true", help=applied)
        parser.add_argument("--fence", metavar="REASON", help="fence a run that has not ended")
        parser.set_defaults(run=_expire)


def _add_comparisons(commands: Any) -> None:
    state = "an epoch, for the state after it, or a savepoint"
    diff = add_reader(commands, "diff", "count the keys that differ between two states")
    diff.add_argument("before", metavar="BEFORE", type=number_or_name, help=state)
    diff.add_argument(
        "after", metavar="AFTER", type=number_or_name, nargs="?", help="default: the last"
    )
    diff.add_argument("--operator", type=int, help="show the differing keys of this operator")
    _add_family(diff)
    diff.add_argument("--limit", type=_row_count, default=_DEFAULT_LIMIT, help="keys to show")
    diff.set_defaults(run=_diff)
    lookup = add_reader(commands, "lookup", "show the state of one key")
    lookup.add_argument(
        "--key",
        metavar="VALUE",
        nargs="*",
        required=True,
        help="a value for each key column, in order; a window as JSON, bytes in hexadecimal",
    )
    _add_operator(lookup)
    _add_family(lookup)
    _add_at(lookup)
    lookup.set_defaults(run=_lookup)
    skew = add_reader(commands, "skew", "show the distribution of state over partitions")
    _add_at(skew)
    skew.set_defaults(run=_skew)
    reading = add_reader(commands, "in-flight", "show the in-flight rows of an unaligned cut")
    _add_operator(reading)
    reading.add_argument("--side", type=int, default=0, help="1 is the right side of a join")
    _add_at(reading)
    reading.add_argument("--limit", type=_row_count, default=_DEFAULT_LIMIT, help="rows to show")
    reading.set_defaults(run=_in_flight)


def _add_at(parser: Any) -> None:
    text = "an epoch, for the state after it, or a savepoint; default: the last"
    parser.add_argument("--at", metavar="EPOCH|SAVEPOINT", type=number_or_name, help=text)


def _add_operator(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operator", type=int, required=True, help="Spark's operator id")


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", default="default", help="Spark's name of the store")


def _add_family(parser: argparse.ArgumentParser) -> None:
    """A column family and its store."""
    _add_store(parser)
    parser.add_argument(
        "--family", default="default", help="the column family; `families` lists them"
    )


def _row_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number of rows")
    return int(text)


def _add_referencing(commands: Any) -> None:
    """The operations that can reference rows instead of copying them."""
    rescaling = _add_operation(commands, "rescale", "repartition the state")
    rescaling.add_argument("--partitions", type=int, required=True, help="at least 1")
    back = _add_operation(commands, "rollback", "roll the query back to an earlier state")
    to = back.add_mutually_exclusive_group(required=True)
    _add_state(to, "to")
    to.add_argument("--undo", action="store_true", help="the state before the last rollback")
    what = "copy all rows, also those that could be referenced"
    for parser in (rescaling, back):
        parser.add_argument("--rewrite", action="store_true", help=what)


def _add_state(group: Any, word: str) -> None:
    group.add_argument(f"--{word}-epoch", type=int, metavar="EPOCH", help="after this epoch")
    group.add_argument(f"--{word}-savepoint", metavar="NAME", help="of this savepoint")
    group.add_argument(
        f"--{word}-time",
        type=datetime.fromisoformat,
        metavar="TIME",
        help="at this time: 2026-11-25T14:00 or 2026-11-25T14:00+01:00",
    )


def _add_conf(commands: Any) -> None:
    conf = add_command(
        commands,
        "conf",
        "print the configuration for spark-submit",
        f"The options are those of cleancut.configure: {SITE}reference/configuration.html",
    )
    conf.add_argument(
        "--format",
        choices=("submit", "line", "properties", "json"),
        default="submit",
        help="submit: several lines; line: one line for $(...); properties, json: only keys",
    )
    for option in OPTIONS:
        # A switch without a value is true.
        alone: dict[str, Any] = {"nargs": "?", "const": "true"} if option.is_switch else {}
        text = f"{option.text} {option.rule.allowed[0].upper()}{option.rule.allowed[1:]}."
        conf.add_argument(option.flag, metavar="VALUE", help=text, **alone)
    conf.set_defaults(run=_conf)
    jars = add_command(commands, "jars", "print the paths of the jars for the installed Spark")
    jars.add_argument(
        "--separator", default="\n", help="text between the paths; default: a new line"
    )
    jars.set_defaults(run=_jars)


def _add_operation(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        name,
        f"{text}; prints a plan without --apply",
        "Starts Spark in this process. The query must be stopped"
        + (", unless it commits cuts." if name == "clone" else "."),
    )
    add_location(parser)
    parser.add_argument("--apply", action="store_true", help="execute the plan")
    if name in ("clone", "rollback"):
        what = "continue without the rows of input files that do not exist any more"
        parser.add_argument("--allow-missing-input", action="store_true", help=what)
    # A clone leaves the query as it is.
    if name != "clone":
        parser.add_argument(
            "--file-sink",
            metavar="PATH",
            help="output path, if the query writes to Spark's file sink",
        )
    _add_spark(parser)
    parser.set_defaults(run=_operate, operation=name)
    return parser


def _add_spark(parser: argparse.ArgumentParser) -> None:
    """Options of the Spark session and of the output."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_spark(parser, "local[*]")


def _conf(parsed: argparse.Namespace) -> int:
    texts = {option: getattr(parsed, option.name) for option in OPTIONS}
    parsed_texts = {
        option.name: option.parse(text) for option, text in texts.items() if text is not None
    }
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
    checkpoint = checkpoint_of(parsed)
    infos: InfoList[Any]
    if parsed.replicas:
        infos = checkpoint.replicas()
    elif parsed.owners:
        infos = checkpoint.owners()
    elif parsed.stores:
        infos = checkpoint.stores()
    else:
        infos = checkpoint.cuts() or checkpoint.stores()
    print_list(infos, parsed)
    return OK


def _show(parsed: argparse.Namespace) -> int:
    cut = checkpoint_of(parsed).cut(parsed.at)
    print_result(cut, parsed)
    return OK


def _history(parsed: argparse.Namespace) -> int:
    checkpoint = checkpoint_of(parsed)
    epochs = checkpoint.history(parsed.since)
    print_list(epochs, parsed)
    if not epochs and not checkpoint.cuts():
        print(_NO_CUTS.format(parsed.location), file=sys.stderr)
    return OK


def _costs(parsed: argparse.Namespace) -> int:
    print_list(checkpoint_of(parsed).cost_per_day(), parsed)
    return OK


def _state(parsed: argparse.Namespace) -> int:
    table = checkpoint_of(parsed).state(
        parsed.operator,
        limit=parsed.limit + 1,
        store=parsed.store,
        at=parsed.at,
        version=parsed.version,
        partition=parsed.partition,
        family=parsed.family,
    )
    version = int(table.schema.metadata[b"cleancut.version"])
    print_rows(table, parsed, "rows", f" of version {version}", version=version)
    return OK


def _lookup(parsed: argparse.Namespace) -> int:
    try:
        table = checkpoint_of(parsed).lookup(
            parsed.operator,
            Texts(parsed.key),
            store=parsed.store,
            family=parsed.family,
            at=parsed.at,
        )
    except TypeError as error:
        raise invalid("cleancut lookup", error) from error
    parsed.limit = table.num_rows
    version = int(table.schema.metadata[b"cleancut.version"])
    print_rows(table, parsed, "rows", f" of version {version}", version=version)
    return OK


def _diff(parsed: argparse.Namespace) -> int:
    checkpoint = checkpoint_of(parsed)
    if parsed.operator is None:
        print_list(checkpoint.diff(parsed.before, parsed.after), parsed)
        return OK
    differing = checkpoint.changes(
        parsed.operator, parsed.before, parsed.after, store=parsed.store, family=parsed.family
    )
    # Reads one row more than it shows, to report whether there are more.
    batches, wanted = [], parsed.limit + 1
    for batch in differing:
        batches.append(batch.slice(0, wanted))
        wanted -= batches[-1].num_rows
        if wanted == 0:
            break
    table = pa.Table.from_batches(batches, differing.schema)
    print_rows(table, parsed, "keys", " that differ")
    return OK


def _skew(parsed: argparse.Namespace) -> int:
    print_list(checkpoint_of(parsed).skew(parsed.at), parsed)
    return OK


def _in_flight(parsed: argparse.Namespace) -> int:
    table = checkpoint_of(parsed).in_flight(parsed.operator, side=parsed.side, at=parsed.at)
    print_rows(table, parsed, "in-flight rows", "")
    return OK


def _families(parsed: argparse.Namespace) -> int:
    print_list(checkpoint_of(parsed).families(parsed.operator, store=parsed.store), parsed)
    return OK


def _test_restore(parsed: argparse.Namespace) -> int:
    checkpoint = checkpoint_of(parsed)
    if parsed.list:
        print_list(checkpoint.restore_tests(), parsed)
        return OK
    print_list(InfoList([checkpoint.test_restore(parsed.at)]), parsed)
    return OK


def _replicate(parsed: argparse.Namespace) -> int:
    def one_pass() -> None:
        checkpoint = checkpoint_of(parsed)
        info = checkpoint.replicate(
            parsed.target, read_only=parsed.read_only, **access(parsed, "target_")
        )
        print_list(InfoList([info]), parsed)

    return repeat("cleancut replicate", one_pass, parsed.every)


def _fence(parsed: argparse.Namespace) -> int:
    generation = checkpoint_of(parsed).fence(parsed.reason)
    if parsed.json:
        print_json({"generation": generation})
    else:
        print(f"Generation {generation} owns {parsed.location}: no earlier run commits any more.")
    return OK


def _expiry_of(parsed: argparse.Namespace) -> Expiry:
    retained = {"retain_last": parsed.retain_last, "retain_for": parsed.retain_for}
    return checkpoint_of(parsed).expire(**retained)


def _expire(parsed: argparse.Namespace) -> int:
    try:
        plan = parsed.plan(parsed)
    except ValueError as error:
        raise invalid(f"cleancut {parsed.command}", error) from error
    print_plan(plan.apply(fence=parsed.fence) if parsed.apply else plan, parsed)
    return OK


def _restore_metadata(parsed: argparse.Namespace) -> int:
    query = checkpoint_of(parsed).restore_metadata()
    if parsed.json:
        print_json({"query_id": query})
    else:
        print(f"{parsed.location} is the checkpoint of query {query}")
    return OK


def _operate(parsed: argparse.Namespace) -> int:
    # Before Spark starts, which takes seconds.
    check_location(parsed.operation, parsed.location)
    if parsed.operation == "rescale":
        check_partitions("rescale", parsed.location, parsed.partitions)
    elif parsed.operation == "clone":
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


def _check_compatibility(parsed: argparse.Namespace) -> int:
    session = _session(parsed)
    try:
        query = named_query(parsed.query, session, parsed.location)
        compatibility = check_compatibility(parsed.location, query, parsed.output_mode)
    finally:
        session.stop()
    print_result(compatibility, parsed)
    return OK if compatibility else REFUSED


def _plan(parsed: argparse.Namespace, session: Any) -> Plan:
    location, sink = parsed.location, getattr(parsed, "file_sink", None)
    if parsed.operation == "rescale":
        return rescale(
            location,
            parsed.partitions,
            session=session,
            file_sink=sink,
            rewrite=parsed.rewrite,
        )
    if parsed.operation == "rollback":
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
    if parsed.operation == "clone":
        return clone(
            location,
            parsed.target,
            _state_of(parsed, "at"),
            session=session,
            same_query=parsed.same_query,
            cuts=None if parsed.cuts is None else parsed.cuts == "true",
            provider=parsed.provider,
            partitions=parsed.partitions,
            allow_missing_input=parsed.allow_missing_input,
            target_access=access(parsed, "target_"),
        )
    return convert(location, provider=parsed.provider, session=session, file_sink=sink)


def _state_of(parsed: argparse.Namespace, word: str) -> Any:
    given = (getattr(parsed, f"{word}_{kind}") for kind in ("epoch", "savepoint", "time"))
    return next((state for state in given if state is not None), None)


def _session(parsed: argparse.Namespace) -> Any:
    from pyspark.sql import SparkSession

    # Log4j reads it when the JVM starts, before any setting of a session.
    log4j = files(_assets).joinpath(_assets.LOG4J)
    if isinstance(log4j, Path):
        os.environ.setdefault("LOG4J_CONFIGURATION_FILE", str(log4j))
    builder = SparkSession.builder.appName(f"cleancut {parsed.operation}")
    builder = configured(builder.config("spark.ui.enabled", "false"), parsed)
    session = configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _verify(parsed: argparse.Namespace) -> int:
    report = checkpoint_of(parsed).verify()
    print_result(report, parsed)
    if report.problems:
        return DAMAGED
    return OK if report.ok else REFUSED
