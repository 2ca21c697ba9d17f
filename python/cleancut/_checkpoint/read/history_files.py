"""The history that drivers record; it outlives the cuts. See docs/FORMAT.md, "History"."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cleancut._checkpoint.read.cut_info import epoch_infos
from cleancut._checkpoint.read.epoch_info import EpochInfo, SlowEpoch, StageInfo, epoch_info
from cleancut._checkpoint.read.history import History
from cleancut._checkpoint.read.root import Root
from cleancut._format.ages import moment
from cleancut._format.cut.costs import Costs, costs_of
from cleancut._format.fields import typed
from cleancut._format.layout import HISTORY, parse_history_name
from cleancut._storage.objects import Place
from cleancut.errors import error_of

VERSION = 1

# A concurrent driver may compact files between the listing and the read.
_LOOKS = 3


def read_history(
    root: Root, since: int | datetime | None, tested: Mapping[int, datetime]
) -> list[EpochInfo]:
    """The history of epochs: what retained cuts contain, completed by recorded epochs.

    Args:
        root: the root of the checkpoint.
        since: see `Checkpoint.history`.
        tested: time of the last restore test, by epoch.

    Raises:
        RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release recorded an epoch.
        CorruptedError: a cut is corrupted, or CLEANCUT_HISTORY_CORRUPTED.
    """
    if isinstance(since, datetime) and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    kept = list(epoch_infos(History(root).cuts()))
    first = since if since is not None or not kept else kept[0].epoch
    if first is None:
        return []
    by_epoch = {info.epoch: info for info in recorded(root.objects, first)}
    for info in kept:
        if _is_since(info, first):
            by_epoch[info.epoch] = _with_note(info, by_epoch.get(info.epoch))
    return [
        replace(by_epoch[epoch], restore_tested=tested.get(epoch)) for epoch in sorted(by_epoch)
    ]


def _with_note(info: EpochInfo, note: EpochInfo | None) -> EpochInfo:
    """Adds the recorded values that a cut cannot contain."""
    if note is None or note.generation != info.generation:
        return info
    return replace(
        info,
        slow=note.slow,
        cut_ms=note.cut_ms if info.cut_ms is None else info.cut_ms,
        cut_lag_ms=note.cut_lag_ms if info.cut_lag_ms is None else info.cut_lag_ms,
        phases=note.phases,
        timings={**info.timings, **note.timings},
        stages=note.stages,
        operator_names=note.operator_names,
        in_flight_growth=note.in_flight_growth,
    )


def recorded(root: Place, since: int | datetime) -> list[EpochInfo]:
    """The recorded epochs, in order, without those that a rollback replaced.

    An epoch that was rolled back and run again has the values of the later driver.

    Args:
        root: the root of the checkpoint.
        since: the first epoch, or the earliest commit time, in UTC.

    Raises:
        RequestError: CLEANCUT_FORMAT_UNKNOWN, a later release wrote a file.
        CorruptedError: CLEANCUT_HISTORY_CORRUPTED.
    """
    for _ in range(_LOOKS - 1):
        try:
            return _recorded(root, since)
        except FileNotFoundError:
            continue
    return _recorded(root, since)


def _recorded(root: Place, since: int | datetime) -> list[EpochInfo]:
    epochs: list[EpochInfo] = []
    for name in _files(root, since):
        infos = list(rows_of(root, name))
        epochs += infos
        # Files are listed from the last to the first.
        if isinstance(since, datetime) and all(info.written < since for info in infos):
            break
    return [info for info in _holding(epochs) if _is_since(info, since)]


def _is_since(info: EpochInfo, since: int | datetime) -> bool:
    return info.written >= since if isinstance(since, datetime) else info.epoch >= since


def _files(root: Place, since: int | datetime) -> list[str]:
    known = [(last, name) for name, (_, last) in spans(root.list(HISTORY)).items()]
    return [
        name
        for last, name in sorted(known, reverse=True)
        if isinstance(since, datetime) or last >= since
    ]


def spans(names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """The first and the last epoch of each history file, by file name."""
    spans_by_name = {name: parse_history_name(name) for name in names}
    return {name: span for name, span in spans_by_name.items() if span is not None}


def _holding(number: Iterable[EpochInfo]) -> list[EpochInfo]:
    """Drops replaced epochs: a later generation replaces all epochs from its first one on."""
    latest: dict[tuple[int, int], EpochInfo] = {}
    for info in number:
        latest.setdefault((info.generation, info.epoch), info)
    held: list[EpochInfo] = []
    until: int | None = None
    for generation in sorted({generation for generation, _ in latest}, reverse=True):
        epochs_of_run = sorted(epoch for number, epoch in latest if number == generation)
        held += [
            latest[generation, epoch] for epoch in epochs_of_run if until is None or epoch < until
        ]
        until = epochs_of_run[0] if until is None else min(until, epochs_of_run[0])
    return sorted(held, key=lambda info: info.epoch)


def rows_of(root: Place, name: str) -> Iterator[EpochInfo]:
    """The epochs in a file. Raises as `recorded` does, and FileNotFoundError."""
    data = root.read(name)
    try:
        column = pq.read_table(pa.BufferReader(data), columns=["record"]).column("record")
        for text in column.to_pylist():
            fields = json.loads(text)
            version = typed(fields, "version", int)
            if version != VERSION:
                raise error_of(
                    "CLEANCUT_FORMAT_UNKNOWN",
                    path=root.path(name),
                    found=f"{version} of a history",
                    supported=f"version {VERSION}",
                )
            yield _info(fields)
    except (pa.ArrowException, ValueError, TypeError, KeyError) as error:
        raise error_of(
            "CLEANCUT_HISTORY_CORRUPTED", path=root.path(name), detail=str(error)
        ) from error


def _info(fields: dict[str, Any]) -> EpochInfo:
    timings: Mapping[str, int] = typed(fields, "timings", dict, {})
    costs: Costs | None = costs_of(fields["costs"]) if "costs" in fields else None
    rows = typed(fields, "rowsInFlight", int, 0)
    info = epoch_info(
        epoch=typed(fields, "epoch", int),
        generation=typed(fields, "generation", int, 0),
        written=moment(typed(fields, "writtenMs", int)),
        stores=typed(fields, "stores", int, 0),
        timings={phase: ms for phase, ms in timings.items() if phase != "cutMs"},
        costs=costs,
        cut_ms=timings.get("cutMs"),
        channels=(),
    )
    return replace(
        info,
        mode="unaligned" if rows else "aligned",
        in_flight_rows=rows,
        alignment_ms=fields.get("alignmentMs"),
        barrier_to_capture_ms=fields.get("barrierToCaptureMs"),
        slow=_slow(fields.get("slow")),
        stages=tuple(map(_stage, typed(fields, "stages", list, []))),
        operator_names={
            operator: str(name)
            for operator, name in typed(fields, "operatorNames", dict, {}).items()
        },
        in_flight_growth=_growth(fields.get("inFlightGrowth")),
    )


def _stage(fields: Any) -> StageInfo:
    return StageInfo(
        stage=typed(fields, "stage", int),
        phase=typed(fields, "phase", str),
        operators=tuple(map(str, typed(fields, "operators", list, []))),
        tasks=typed(fields, "tasks", int, 0),
        start_ms=typed(fields, "startMs", int, 0),
        ms=typed(fields, "ms", int),
    )


def _growth(fields: Any) -> str | None:
    if fields is None:
        return None
    first, last = typed(fields, "fromRows", int), typed(fields, "toRows", int)
    # The words of InFlightGrowth.scala.
    return (
        f"in-flight rows grew from {first} to {last} over the last {typed(fields, 'epochs', int)} "
        "epochs: the query receives more rows than its stragglers process"
    )


# The public names of kinds that are stored under another name.
_PUBLIC_KINDS = {"gate": "commit"}


def _slow(fields: Any) -> SlowEpoch | None:
    if fields is None:
        return None
    kind = typed(fields, "kind", str)
    return SlowEpoch(
        kind=_PUBLIC_KINDS.get(kind, kind),
        typical_ms=typed(fields, "typicalMs", int),
        detail=typed(fields, "detail", str),
    )
