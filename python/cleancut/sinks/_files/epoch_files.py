"""Epochs as files: each is written once, and seen as a whole or not at all."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from cleancut._display.brief import Brief
from cleancut._display.info_list import InfoList
from cleancut._display.tables import rank
from cleancut._format.ages import age_of
from cleancut._reading.cut_info import moment
from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.columns import column_names
from cleancut.sinks._core.epoch_sink import EpochSink
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._files.compacting import Compactor, Kept, collect, expire
from cleancut.sinks._files.directory import PlainRecords, SinkDirectory
from cleancut.sinks._files.going_back import forget, hide, show
from cleancut.sinks._files.manifest import Manifest
from cleancut.sinks._files.publishing import Output, Publishing
from cleancut.sinks._files.rows import RowReader
from cleancut.sinks._files.view import SeenEpoch, look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, repr=False)
class PublishedEpoch(Brief):
    """An epoch that readers see.

    Attributes:
        epoch: Spark's batch id.
        rows: how many it has.
        files: how many hold them.
        bytes: the size of all its files.
        format: Spark's name of their format.
        query_id: Spark's id of the query.
        run_id: Spark's id of the run that wrote it.
        published: when it became visible, UTC.
        compacted: whether it was put together with others; `bytes` is then what it had before, and
            in `files` others may lie, too.
    """

    epoch: int
    rows: int
    files: int
    bytes: int
    format: str
    query_id: str = field(metadata=rank(2))
    run_id: str = field(metadata=rank(3))
    published: datetime
    compacted: bool = field(metadata=rank(2))


class EpochFiles(EpochSink):
    """Writes each epoch of a query into files of its own; a function for `foreachBatch`.

    An epoch is written by Spark's own writer on the executors, sealed, and then published by one
    small manifest that names its files. However often a driver dies and runs an epoch again, it is
    published once. `read` shows published epochs only; other readers find nothing at the path.

    The path belongs to the query that first writes there, and takes all its epochs. Where the query
    is rolled back, its next run hides what was published of the epochs that it went back behind,
    and shows them again where the rollback was undone.

        counts.writeStream.foreachBatch(EpochFiles("hdfs:///lake/counts")).start()
        EpochFiles("hdfs:///lake/counts").read(spark)
    """

    reads_rows_once = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str = "parquet",  # noqa: A002  # the name that all of Spark uses
        *,
        partition_by: str | Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Names the place; nothing is looked at yet.

        Args:
            path: `s3://bucket/prefix`, reached as a checkpoint there is, or a directory of a file
                system of Hadoop; it is made when it is written.
            format: a format of files that Spark writes and reads: parquet, orc, json, csv, avro, …
                For reading, each epoch's manifest says what it was written in.
            partition_by: columns by whose values the files of an epoch are put apart.
            options: Spark's options of the format, for writing and for reading.
        """
        self._path = os.fspath(path)
        self._output = Output(format, column_names(partition_by), dict(options or {}))
        self._publishing: Publishing | None = None

    def __repr__(self) -> str:
        return f"EpochFiles({self._path!r}, {self._output.format!r})"

    @property
    def name(self) -> str:
        """The path, as it was given."""
        return f"EpochFiles {self._path}"

    def begin(self, side: QuerySide, session: "SparkSession") -> None:
        """Goes back with the query, if it has been rolled back; see `EpochSink`.

        Raises:
            RequestError: CLEANCUT_SINK_OWNED, another query writes to this path.
            DamagedError: CLEANCUT_SINK_DAMAGED.
        """
        self._publishing = Publishing(SinkDirectory(session, self._path), self._output)
        self._publishing.follow(side)

    def published(self, batch: Batch) -> str | None:
        """The manifest of the epoch; see `EpochSink`.

        Raises:
            RequestError: CLEANCUT_SINK_OWNED, another query writes to this path;
                CLEANCUT_SINK_EPOCH_TAKEN, the query has published the epoch with other input, and
                was set back since.
            DamagedError: CLEANCUT_SINK_DAMAGED, what is published of the epoch cannot be read.
        """
        found = self._of_run().check(batch)
        return None if found is None else found.encode().decode()

    def can_publish(self, handle: str, batch: Batch, published: str | None) -> bool:
        """Whether all files of a manifest are there; see `EpochSink`."""
        return self._of_run().is_usable(handle, published)

    def stage(self, rows: "DataFrame", batch: Batch) -> str:
        """Writes the files; gives the manifest that is to name them."""
        return self._of_run().stage(rows, batch).encode().decode()

    def publish(self, handle: str, batch: Batch) -> None:
        """Creates the manifest, unless there is one of the epoch; see `EpochSink`."""
        self._decide(handle, batch)

    def _decide(self, handle: str, batch: Batch) -> Manifest:
        """`publish`; gives what is published, which may be what another run has staged."""
        return self._of_run().publish(Manifest.decode(handle.encode(), self._path), batch)

    def sweep(self, batch: Batch) -> None:
        """Deletes what tries up to this epoch have left; see `EpochSink`."""
        self._of_run().sweep(batch.epoch)

    def _of_run(self) -> Publishing:
        assert self._publishing is not None, "a sink begins before it is asked"
        return self._publishing

    def epochs(self, spark: "SparkSession") -> InfoList[PublishedEpoch]:
        """The published epochs, ascending.

        Args:
            spark: any session that can read the path.

        Raises:
            DamagedError: CLEANCUT_SINK_DAMAGED.
        """
        return _published(look(SinkDirectory(spark, self._path)).infos)

    def read(
        self,
        spark: "SparkSession",
        epochs: Iterable[int] | None = None,
        *,
        epoch_column: str | None = None,
    ) -> "DataFrame":
        """The rows of published epochs, as they are now; epochs that come later are not in it.

        Columns are found by their names. Those that an epoch does not have are null in its rows;
        the order is that of the newest epoch, and what only older ones have follows.

        Args:
            spark: any session that can read the path.
            epochs: which ones; None is all of them.
            epoch_column: the name of a column to add, which says what epoch a row is of.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_MISSING, one of them is not published, or none is.
            DamagedError: CLEANCUT_SINK_DAMAGED, a manifest or a file that it names is missing.
        """
        directory = SinkDirectory(spark, self._path)
        view = look(directory, epochs)
        if not view.infos:
            raise error_of("CLEANCUT_SINK_EPOCHS_MISSING", path=directory.location, epochs="any")
        return RowReader(spark, directory, self._output.options).rows(view, epoch_column)

    def paths(
        self,
        epochs: Iterable[int] | None = None,
        *,
        endpoint: str | None = None,
        region: str | None = None,
    ) -> list[str]:
        """The files of published epochs, as they are now, for whoever reads without Cleancut.

        No Spark and no JVM are needed: the path is reached as `cleancut.Checkpoint` reaches its
        location. Values of `partition_by` are in the paths alone, as `column=value`. Files that
        `compact` has made have a column `cleancut_epoch`.

        Args:
            epochs: which ones; None is all of them.
            endpoint: for `s3://`, the URL of the store; None is that of the environment, or AWS.
            region: likewise.

        Returns:
            Whole paths, in the order of the epochs; `s3://bucket/…` for what is in a bucket.

        Raises:
            RequestError: CLEANCUT_SINK_EPOCHS_MISSING, one of them is not published;
                CLEANCUT_SINK_EPOCHS_MIXED, their files have rows of others; what `Checkpoint`
                raises for a location.
            DamagedError: CLEANCUT_SINK_DAMAGED, a manifest cannot be read.
        """
        records = PlainRecords(self._path, endpoint, region)
        view = look(records, epochs)
        for seen in view.together:
            others = seen.use.epochs - seen.chosen
            if others:
                raise error_of(
                    "CLEANCUT_SINK_EPOCHS_MIXED",
                    path=records.location,
                    epochs=str(seen.chosen),
                    others=str(others),
                )
        found = [(of.epoch, of.files) for of in view.apart]
        found += [(min(seen.chosen), seen.part.files) for seen in view.together]
        return [records.at(file.name) for _, files in sorted(found) for file in files]

    def take_back(
        self, after: int, *, endpoint: str | None = None, region: str | None = None
    ) -> InfoList[PublishedEpoch]:
        """Hides the epochs that were published after one, as after a rollback of the query to it.

        The query must not run. Killed, it can be called again: the last epoch goes first, so that
        readers see all epochs up to some one at any moment. The files stay, for `give_back`, until
        `forget` is called.

        Args:
            after: the epoch that stays the last one, and those before it; -1 hides all.
            endpoint: as for `paths`; no Spark and no JVM are needed.
            region: likewise.

        Returns:
            What is not seen any more, ascending.

        Raises:
            DamagedError: CLEANCUT_SINK_DAMAGED, a manifest cannot be read; nothing was changed.
        """
        return _published(hide(PlainRecords(self._path, endpoint, region), after).infos)

    def give_back(
        self,
        until: int | None = None,
        *,
        endpoint: str | None = None,
        region: str | None = None,
    ) -> InfoList[PublishedEpoch]:
        """Shows again what was taken back, as after the rollback was undone.

        The query must not run. An epoch whose number was published again meanwhile stays as it is,
        and what was taken back of it stays hidden.

        Args:
            until: no epoch after this one; None is all.
            endpoint: as for `paths`.
            region: likewise.

        Returns:
            What is seen again, ascending.

        Raises:
            DamagedError: CLEANCUT_SINK_DAMAGED.
        """
        records = PlainRecords(self._path, endpoint, region)
        return _published(show(records, lambda epoch: until is None or epoch <= until).infos)

    def forget(self, *, endpoint: str | None = None, region: str | None = None) -> int:
        """Gives up for good what was taken back; its files go with the next run of the query.

        Args:
            endpoint: as for `paths`.
            region: likewise.

        Returns:
            How many epochs these were.
        """
        return forget(PlainRecords(self._path, endpoint, region))

    def compact(
        self,
        spark: "SparkSession",
        *,
        keep: int = 10,
        younger_than: timedelta | str | None = None,
        file_bytes: int = 128 * 2**20,
        grace: timedelta | str = "1d",
    ) -> InfoList[PublishedEpoch]:
        """Puts small epochs together into larger files, and their manifests into fewer.

        Readers see the same rows, each of its epoch, before and after it. It may run beside the
        query, from any session. Killed, it has changed nothing. An epoch that is as large as a file
        may get keeps its files.

        Args:
            spark: any session that can read and write the path.
            keep: how many of the last epochs stay as they are; from 1 on.
            younger_than: epochs that were published in this time stay, too: a timedelta, or a text
                such as "7d", "36h", "30m" or "90s".
            file_bytes: how large the files should be.
            grace: for how long the old files stay, for readers that have begun to read them; a
                later call of this or of `expire` deletes them.

        Returns:
            The epochs that were put together, or anew; ascending.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, rows of this format or with these columns cannot
                say of what epoch they are.
            RetryableError: CLEANCUT_SINK_CHANGED, epochs were hidden or shown all the while.
            DamagedError: CLEANCUT_SINK_DAMAGED, what is published cannot be read as it should.
            ValueError: `keep`, `file_bytes` or an age is none.
        """
        kept = _kept(keep, younger_than)
        if file_bytes < 1:
            raise ValueError(f"file_bytes is {file_bytes}, and is to be 1 or more")
        directory = SinkDirectory(spark, self._path)
        collect(directory, _milliseconds(grace))
        reader = RowReader(spark, directory, self._output.options)
        made = Compactor(reader, directory, self._output, file_bytes).run(kept)
        shown = chain.from_iterable(use.shown for use in made)
        return _published(look(directory, shown, missing_ok=True).infos)

    def expire(
        self,
        *,
        keep: int | None = None,
        younger_than: timedelta | str | None = None,
        grace: timedelta | str = "1d",
        endpoint: str | None = None,
        region: str | None = None,
    ) -> InfoList[PublishedEpoch]:
        """Gives all epochs up for good but the last ones, and the young ones.

        The last epoch stays, and with both arguments an epoch stays for either. It may run beside
        the query. What was taken back of the epochs that go can be given back no more.

        Args:
            keep: how many of the last epochs stay; from 1 on.
            younger_than: epochs that were published in this time stay, as for `compact`.
            grace: for how long their files stay, likewise.
            endpoint: as for `paths`; no Spark and no JVM are needed.
            region: likewise.

        Returns:
            What is not seen any more, ascending.

        Raises:
            RetryableError: CLEANCUT_SINK_CHANGED.
            DamagedError: CLEANCUT_SINK_DAMAGED.
            ValueError: neither is given, or what is given keeps nothing or is no age.
        """
        if keep is None and younger_than is None:
            raise ValueError("expire takes keep, younger_than, or both")
        kept = _kept(1 if keep is None else keep, younger_than)
        records = PlainRecords(self._path, endpoint, region)
        collect(records, _milliseconds(grace))
        return _published(expire(records, kept))


def _kept(keep: int, younger_than: timedelta | str | None) -> Kept:
    if keep < 1:
        raise ValueError(f"keep is {keep}, and the last epoch always stays")
    age_ms = None if younger_than is None else _milliseconds(younger_than)
    return Kept(keep, None if age_ms is None else time.time_ns() // 1_000_000 - age_ms)


def _milliseconds(age: timedelta | str) -> int:
    return age_of(age) // timedelta(milliseconds=1)


def _published(seen: Iterable[SeenEpoch]) -> "InfoList[PublishedEpoch]":
    return InfoList(
        PublishedEpoch(
            epoch=of.epoch,
            rows=of.manifest.rows,
            files=of.files,
            bytes=of.bytes,
            format=of.manifest.format,
            query_id=of.manifest.query_id,
            run_id=of.manifest.run_id,
            published=moment(of.published_ms),
            compacted=of.in_part,
        )
        for of in seen
    )
