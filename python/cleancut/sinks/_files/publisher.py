"""Writes and publishes epochs as files, once, and deletes leftovers of crashes."""

import logging
import secrets
import time
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from cleancut.errors import error_of
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._core.expected import Expected
from cleancut.sinks._core.ledger import EXPECT_NOTHING, NO_EPOCH, EpochsLost, lost_after
from cleancut.sinks._core.ledger_errors import error_for, rolled_back
from cleancut.sinks._core.query_side import QuerySide
from cleancut.sinks._epoch_log.checkpoints import NO_MOVE, begin_checkpoint, check_followed
from cleancut.sinks._epoch_log.manifest import (
    DataFile,
    Link,
    Manifest,
    claim,
    owner_of,
    read_manifest,
)
from cleancut.sinks._epoch_log.names import (
    EPOCHS,
    FILES,
    HIDDEN,
    Attempt,
    attempts,
    hidden_attempts,
    manifest_epochs,
    manifest_name,
)
from cleancut.sinks._epoch_log.operations import (
    counts_now,
    find_lost_since,
    last_recorded,
    read_history,
    record_start,
)
from cleancut.sinks._epoch_log.rollback import follow, hide_manifest, missing
from cleancut.sinks._files.directory import SinkDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_LOG = logging.getLogger("cleancut.sinks")


@dataclass(frozen=True)
class Output:
    """Options of written files.

    Attributes:
        format: Spark's name of the format.
        partition_by: partition columns, in the names of directories.
        options: Spark's options of the format.
        check: for a channel, whose epochs are linked: checks that rows fit the schema of the last
            epoch; None if epochs are independent.
    """

    format: str
    partition_by: tuple[str, ...]
    options: "Mapping[str, str]"
    check: "Callable[[StructType, Manifest | None, Batch], None] | None" = None


class Publisher:
    """Publishes the epochs of one run of a query.

    Call `follow` once. For each epoch call `check`, then `stage`, the seal, `publish` and
    `clean_up`. An epoch is invisible before `publish`, and completely visible from then on. If
    `check` has found the epoch, `stage` and `publish` are not called; if `is_usable` holds for the
    output that an earlier run has sealed, `stage` is not called.
    """

    def __init__(self, directory: SinkDirectory, output: Output) -> None:
        self._directory = directory
        self._output = output
        self._is_claimed = False
        self._is_prepared = False
        self._has_published = False
        self._move = NO_MOVE
        self._left: list[Attempt] | None = None
        self._expired = -1
        self._kept: set[int] = set()
        # The manifests of the current epoch and of the last one that this run published or found.
        self._seen: Manifest | None = None
        self._last: Manifest | None = None

    @property
    def location(self) -> str:
        """The directory, in Hadoop's form."""
        return self._directory.location

    def follow(self, side: QuerySide, expected: Expected = EXPECT_NOTHING) -> None:
        """Hides and unhides epochs after rollbacks of the query.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, CLEANCUT_SINK_ROWS_MISSING,
                CLEANCUT_SINK_EPOCHS_LOST, CLEANCUT_SINK_CHECKPOINT_UNKNOWN.
            FencedError: CLEANCUT_FENCED.
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        is_ours = self._is_ours(side.batch)
        if expected.published:
            last = last_recorded(self._directory) if is_ours else NO_EPOCH
            lost = lost_after(last, side.batch, expected)
            if lost is not None:
                raise error_for(lost, side.batch, self._directory.location)
        if is_ours:
            self._move = begin_checkpoint(self._directory, side.batch, expected)
            followed = follow(self._directory, side, expected)
            if isinstance(followed, EpochsLost):
                raise error_for(followed, side.batch, self._directory.location)
            self._expired, history = followed
            self._has_published = history.until != NO_EPOCH
            given_up = missing(self._directory, self._expired, history)
            if given_up is not None:
                raise error_for(given_up, side.batch, self._directory.location)

    def check(self, batch: Batch) -> Manifest | None:
        """The manifest of the epoch; None if it is not published and must be written.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, CLEANCUT_SINK_EPOCH_CONFLICT,
                CLEANCUT_SINK_EPOCH_EXPIRED.
            CorruptedError: CLEANCUT_SINK_CORRUPTED.
        """
        self._is_ours(batch)
        if batch.epoch <= self._expired:
            raise error_of(
                "CLEANCUT_SINK_EPOCH_EXPIRED",
                epoch=batch.epoch,
                path=self._directory.location,
                query=batch.query_id,
                until=self._expired,
            )
        manifest = read_manifest(self._directory, batch.epoch)
        if manifest is not None:
            manifest.check(batch, self._directory.location)
            self._last = manifest
        self._seen = manifest
        return manifest

    def _is_ours(self, batch: Batch) -> bool:
        """Whether the query owns the directory; otherwise it has no owner yet."""
        if not self._is_claimed:
            owner = owner_of(self._directory)
            if owner is not None:
                owner.check(batch, self._directory.location)
                self._is_claimed = True
        return self._is_claimed

    def is_usable(self, handle: str, published: str | None) -> bool:
        """Whether the output that an earlier run staged and sealed can be published.

        Args:
            handle: the manifest in the seal.
            published: the published manifest of the epoch, if there is one.
        """
        staged = Manifest.decode(handle.encode(), f"the seal for {self._directory.location}")
        if published is not None:
            published_manifest = Manifest.decode(published.encode(), self._directory.location)
            return staged.attempt == published_manifest.attempt
        if self._is_whole(staged):
            return True
        place = self._directory.at(staged.attempt.directory)
        _LOG.warning("%s differs from its seal, so epoch %s runs again", place, staged.epoch)
        return False

    def _is_whole(self, staged: Manifest) -> bool:
        attempt = staged.attempt
        if not staged.files:
            return True
        if attempt not in attempts(self._directory.names(FILES)):
            return False
        existing = {DataFile(*file) for file in self._directory.files(attempt.directory)}
        return existing >= set(staged.files)

    def stage(self, df: "DataFrame", batch: Batch) -> Manifest:
        """Writes the rows invisibly; returns the manifest to publish."""
        link = self._linked(df.schema, batch)
        self._prepare()
        attempt = Attempt(batch.epoch, secrets.token_hex(16))
        rows, written = self._directory.write(df, self._output, attempt.directory)
        # For an epoch that only advances the watermark, Spark writes a file without rows.
        files = tuple(DataFile(*file) for file in sorted(written)) if rows else ()
        manifest = self._manifest(attempt, df.schema, link, batch)
        return replace(manifest, rows=rows, files=files)

    def _prepare(self) -> None:
        if not self._is_prepared:
            self._directory.prepare()
            self._is_prepared = True

    def _manifest(
        self, attempt: Attempt, schema: "StructType", link: Link | None, batch: Batch
    ) -> Manifest:
        """The manifest of an epoch without rows."""
        return Manifest(
            attempt=attempt,
            query_id=batch.query_id,
            run_id=batch.run_id,
            planned_ms=batch.planned_ms,
            published_ms=time.time_ns() // 1_000_000,
            rows=0,
            files=(),
            format=self._output.format,
            partition_by=self._output.partition_by,
            schema=schema.json(),
            link=link,
        )

    def publish(
        self, staged: Manifest, batch: Batch, expected: Expected = EXPECT_NOTHING
    ) -> Manifest:
        """Publishes a sealed epoch, unless another run has published it.

        After an error it is unknown whether the epoch is visible, so staged files are not deleted.

        Args:
            staged: the staged manifest.
            batch: the epoch.
            expected: the epochs that the directory must have.

        Returns:
            The published manifest: the staged one, or that of the other run.

        Raises:
            RequestError: CLEANCUT_SINK_OWNER_MISMATCH, CLEANCUT_SINK_EPOCH_CONFLICT,
                CLEANCUT_SINK_EPOCHS_LOST since the run has published its last epoch.
            FencedError: CLEANCUT_FENCED, the query was rolled back to before the epoch, or a run
                of a checkpoint has begun that continues this one.
        """
        attempt = staged.attempt
        self._check_last(batch, expected)
        if not self._is_claimed:
            claim(self._directory, batch)
            self._is_claimed = True
        if not self._has_published:
            record_start(self._directory, batch.epoch)
            self._has_published = True
        check_followed(self._directory, batch, self._move)
        name = manifest_name(staged.epoch)
        published: Manifest | None = staged
        if not self._directory.create(name, staged.encode()):
            published = read_manifest(self._directory, staged.epoch)
        if published is None:
            # It existed a moment ago, and Cleancut never deletes one.
            raise error_of(
                "CLEANCUT_SINK_CORRUPTED",
                path=self._directory.at(name),
                detail="it was deleted while the epoch was published",
            )
        if published.attempt != attempt:
            published.check(batch, self._directory.location)
        if published.attempt != attempt or not staged.files:
            self._delete(attempt)
        if not counts_now(self._directory, batch.epoch):
            hide_manifest(self._directory, published)
            raise rolled_back(batch, self._directory.location)
        self._seen = self._last = published
        return published

    def _check_last(self, batch: Batch, expected: Expected) -> None:
        if self._last is None or self._last.epoch >= batch.epoch:
            return
        lost = find_lost_since(self._directory, batch, expected, self._last.epoch)
        if lost is not None:
            raise error_for(lost, batch, self._directory.location)

    def _linked(self, schema: "StructType", batch: Batch) -> Link | None:
        """The link of an epoch whose rows fit the channel; None if this is no channel."""
        if self._output.check is None:
            return None
        if self._last is None:
            there = manifest_epochs(self._directory.names(EPOCHS))
            history = read_history(self._directory, there)
            before = [epoch for epoch in there if epoch < batch.epoch and history.counts(epoch)]
            self._last = read_manifest(self._directory, before[-1]) if before else None
        self._output.check(schema, self._last, batch)
        return Link(None if self._last is None else self._last.attempt)

    def clean_up(self, epoch: int) -> None:
        """Deletes leftovers of unpublished attempts up to this epoch.

        They will never be published: each epoch up to this one has its manifest, or must have had
        it before this one began. Attempts of later epochs may belong to a concurrent run, and are
        checked when their epoch is published. Leftovers that appear after the first epoch of a run
        are left to the next run: this run leaves some only if it is killed. Hidden epochs may be
        unhidden, and are retained.
        """
        if self._left is None:
            # In this order, so that each listed attempt has its manifest listed.
            kept = set(hidden_attempts(self._directory.names(HIDDEN)))
            unpublished = set(attempts(self._directory.names(FILES))) - kept
            # Files of expired epochs are deleted after their grace period.
            self._left = sorted(attempt for attempt in unpublished if attempt.epoch > self._expired)
            self._kept = set(manifest_epochs(self._directory.names(EPOCHS)))
        due = [attempt for attempt in self._left if attempt.epoch <= epoch]
        self._left = self._left[len(due) :]
        for number, group in groupby(due, lambda attempt: attempt.epoch):
            for attempt in self._unpublished(number, list(group)):
                self._delete(attempt)

    def _unpublished(self, epoch: int, attempts_left: list[Attempt]) -> "Iterable[Attempt]":
        manifest: Manifest | None = None
        if self._seen is not None and self._seen.epoch == epoch:
            manifest = self._seen
        elif epoch in self._kept:
            # A single directory of a published epoch belongs to its manifest; no request needed.
            if len(attempts_left) == 1:
                return ()
            manifest = read_manifest(self._directory, epoch)
        kept = manifest.attempt if manifest is not None and manifest.files else None
        return (attempt for attempt in attempts_left if attempt != kept)

    def _delete(self, attempt: Attempt) -> None:
        try:
            self._directory.delete(attempt.directory)
        except Exception as failure:  # any error
            # The epoch is published; a leftover changes no result.
            place = self._directory.at(attempt.directory)
            _LOG.warning("%s is not used and could not be deleted: %s", place, failure)
