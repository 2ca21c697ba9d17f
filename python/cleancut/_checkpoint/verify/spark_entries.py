"""The content that Spark's own files of a checkpoint must have, if it can be checked."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cleancut._format.spark.log_entries import is_join_of_format_1, offsets_of
from cleancut._format.spark.operator_metadata import OperatorMetadata

_VERSION = re.compile(r"v[0-9]+")
_SCHEMA = re.compile(rb"(\0.)?v[0-9]+")
_COMPACT = ".compact"
_JOIN = "symmetricHashJoin"

Missing = list[tuple[str, str]]


def query_id_of(metadata: bytes) -> str | None:
    """The query id in Spark's file `metadata`."""
    parsed = _json(metadata.decode("utf-8", "replace"))
    query_id = parsed.get("id") if isinstance(parsed, dict) else None
    return query_id if isinstance(query_id, str) else None


def is_object(data: bytes) -> bool:
    """Whether the content is a JSON object."""
    return isinstance(_json(data.decode("utf-8", "replace")), dict)


def problem_of(name: str, data: bytes) -> str | None:
    """The problem with the content of a file; None if none is known."""
    if not data:
        return "it is empty"
    parts = name.split("/")
    if "_stateSchema" in parts or parts[-1] == "schema":
        return None if _SCHEMA.match(data) else "it does not begin with the version of a schema"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None if parts[0] == "sources" else "it is no text"
    if parts[0] == "sources":
        return _problem_of_source(parts[2], text)
    version, *lines = text.split("\n")
    if not _VERSION.fullmatch(version):
        return "it does not begin with a version"
    body = _json(lines[0] if lines else "")
    if not isinstance(body, dict):
        return "its second line is no JSON object"
    if parts[0] == "state":
        return _problem_of_operator(int(parts[1]), data)
    return None


def _problem_of_source(entry: str, text: str) -> str | None:
    """Sources write any format; each line of a file source names the entry that it belongs to."""
    number = _number(entry)
    for line in text.split("\n")[1:]:
        if not line.startswith("{"):
            continue
        parsed = _json(line)
        if parsed is None:
            return "a line of it is no JSON"
        batch = parsed.get("batchId") if isinstance(parsed, dict) else None
        if isinstance(batch, int) and number is not None:
            fits = batch <= number if entry.endswith(_COMPACT) else batch == number
            if not fits:
                return f"it has a line of entry {batch}"
    return None


def _problem_of_operator(operator: int, data: bytes) -> str | None:
    try:
        described = OperatorMetadata.parse(data).operator
    except ValueError:
        return "it does not describe an operator"
    return None if described == operator else f"it is that of the operator {described}"


def numbers(names: Iterable[str], directory: str) -> set[int]:
    """The numbered entries of a log."""
    prefix = f"{directory}/"
    entries = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return {int(entry) for entry in entries if entry.isdecimal()}


def missing_of_sources(names: Iterable[str], offsets: bytes, epoch: int) -> Missing:
    """The missing entries of file sources that an epoch's offsets require.

    Spark numbers offsets by the places in the plan where a source is read, but logs by the sources.
    If the plan reads a source twice, as a self-join does, the log of an offset is not known, and
    each offset requires that there is some log with its entries, and as many logs as offsets.
    """
    there = set(names)
    last = dict(_last_entries(offsets))
    logs = {name.split("/")[1] for name in there if name.startswith("sources/")}
    if not _offsets(offsets).keys() <= logs and _are_in_other_logs(there, logs, last):
        return []
    return [
        (name, f"the offsets of epoch {epoch} build on it")
        for source, entry in last.items()
        for name in _missing_until(there, source, entry)
    ]


def _are_in_other_logs(there: set[str], logs: set[str], last: Mapping[str, int]) -> bool:
    """Whether logs, whatever their names, have the last entries of sources, and none has a gap."""
    highest = {}
    for log in logs:
        entries = {
            name.removesuffix(_COMPACT) for name in there if name.startswith(f"sources/{log}/")
        }
        highest[log] = max(numbers(entries, f"sources/{log}"), default=-1)
    has_gap = any(_missing_until(there, log, entry) for log, entry in highest.items())
    is_reached = max(last.values(), default=-1) <= max(highest.values(), default=-1)
    return is_reached and not has_gap and len(logs) >= len(set(last.values()))


def _last_entries(offsets: bytes) -> Iterator[tuple[str, int]]:
    """Yields the last entry that an epoch includes, for each file source."""
    for source, offset in _offsets(offsets).items():
        position = _json(offset) if offset is not None else None
        last = position.get("logOffset") if isinstance(position, dict) else None
        if isinstance(last, int):
            yield source, last


def _missing_until(there: set[str], source: str, last: int) -> list[str]:
    """The missing entries in the log of a source, from its last compacted one."""
    log = f"sources/{source}"
    compacted = max((n for n in range(last + 1) if f"{log}/{n}{_COMPACT}" in there), default=-1)
    existing = (number for number in numbers(there, log) if compacted < number <= last)
    first = 0 if compacted < 0 else compacted + 1
    return [f"{log}/{number}" for number in sorted(set(range(first, last + 1)) - set(existing))]


def missing_of_operators(
    names: Iterable[str], operators: Iterable[int], entries: Mapping[str, bytes], offsets: bytes
) -> Missing:
    """The missing files among those that describe operators and their schemas.

    Args:
        names: the files that exist.
        operators: the IDs of operators with state.
        entries: the contents of files.
        offsets: the entry of the offset log of the last epoch.
    """
    there = set(names)
    missing: Missing = []
    for operator in sorted(operators):
        home = f"state/{operator}"
        metadata_files = [name for name in there if name.startswith(f"{home}/_metadata/")]
        if not metadata_files:
            missing.append((f"{home}/_metadata/metadata", f"operator {operator} has state"))
        for name in metadata_files:
            for schema in _schemas(home, entries.get(name, b""), offsets):
                if schema not in there:
                    missing.append((schema, f"{name} references it"))
    return missing


def _schemas(home: str, metadata: bytes, offsets: bytes) -> list[str]:
    """The schema files that an operator's metadata reference."""
    try:
        operator = OperatorMetadata.parse(metadata)
    except ValueError:
        return []
    # Spark has no writer for these schemas, and runs such a join if stateSchemaCheck is off.
    is_unwritten = operator.name == _JOIN and is_join_of_format_1(
        offsets.decode("utf-8", "replace")
    )
    return [] if is_unwritten else operator.schemas(home)


def _offsets(entry: bytes) -> Mapping[str, str | None]:
    try:
        return offsets_of(entry.decode()) if entry else {}
    except UnicodeDecodeError:
        return {}


def _number(entry: str) -> int | None:
    number = entry.removesuffix(_COMPACT)
    return int(number) if number.isdecimal() else None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
