"""How an epoch is written and made visible, once, and what crashes have left is taken away."""

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
    TAKEN_BACK,
    Attempt,
    attempts,
    manifest_epochs,
    manifest_name,
    taken_back,
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
    """How rows are written.

    Attributes:
        format: Spark's name of the format.
        partition_by: the columns that go into the directories' names.
        options: Spark's, for this format.
        check: of a channel, whose epochs are linked: whether rows fit what it has, which the last
            epoch before them says; None where epochs are apart.
    """

    format: str
    partition_by: tuple[str, ...]
    options: "Mapping[str, str]"
    check: "Callable[[StructType, Manifest | None, Batch], None] | None" = None


class Publishing:
    """The epochs of one run of a query.

    `follow` comes once. For each epoch `check` comes first, then `stage`, the seal, `publish` and
    `clean_up`. An epoch is invisible before `publish`, and visible as a whole from then on. `stage`
    and `publish` are left out where `check` has found the epoch, and `stage` where what an earlier
    run has sealed `is_usable`.
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
        # What this run has published, or found, of the epoch that it is at, and of the last one.
        self._seen: Manifest | None = None
        self._last: Manifest | None = None

    @property
    def location(self) -> str:
        """The directory, as Hadoop names it."""
        return self._directory.location

    def follow(self, side: QuerySide, expected: Expected = EXPECT_NOTHING) -> None:
        """Hides and shows what the query has gone back behind, and to.

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
        """What is published of the epoch; None if nothing is, so that it is to be written.

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
        found = read_manifest(self._directory, batch.epoch)
        if found is not None:
            found.check(batch, self._directory.location)
            self._last = found
        self._seen = found
        return found

    def _is_ours(self, batch: Batch) -> bool:
        """Whether the place is the query's; else it is nobody's yet."""
        if not self._is_claimed:
            owner = owner_of(self._directory)
            if owner is not None:
                owner.check(batch, self._directory.location)
                self._is_claimed = True
        return self._is_claimed

    def is_usable(self, handle: str, published: str | None) -> bool:
        """Whether what an earlier run had staged when it sealed the epoch can be published.

        Args:
            handle: the manifest that the seal has.
            published: that of the epoch, if there is one.
        """
        staged = Manifest.decode(handle.encode(), f"the seal for {self._directory.location}")
        if published is not None:
            found = Manifest.decode(published.encode(), self._directory.location)
            return staged.attempt == found.attempt
        if self._is_whole(staged):
            return True
        place = self._directory.at(staged.attempt.directory)
        _LOG.warning(
            "%s is not as it was sealed, so that epoch %s is run again", place, staged.epoch
        )
        return False

    def _is_whole(self, staged: Manifest) -> bool:
        attempt = staged.attempt
        if not staged.files:
            return True
        if attempt not in attempts(self._directory.names(FILES)):
            return False
        found = {DataFile(*file) for file in self._directory.files(attempt.directory)}
        return found >= set(staged.files)

    def stage(self, df: "DataFrame", batch: Batch) -> Manifest:
        """Writes the rows where nobody looks for them; gives what is to be published."""
        link = self._linked(df.schema, batch)
        self._prepare()
        attempt = Attempt(batch.epoch, secrets.token_hex(16))
        rows, written = self._directory.write(df, self._output, attempt.directory)
        # Of an epoch that only moves the watermark Spark writes a file without rows.
        files = tuple(DataFile(*file) for file in sorted(written)) if rows else ()
        found = self._manifest(attempt, df.schema, link, batch)
        return replace(found, rows=rows, files=files)

    def _prepare(self) -> None:
        if not self._is_prepared:
            self._directory.prepare()
            self._is_prepared = True

    def _manifest(
        self, attempt: Attempt, schema: "StructType", link: Link | None, batch: Batch
    ) -> Manifest:
        """That of an epoch without rows."""
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
        """Makes an epoch visible that is sealed, unless another run came first.

        An error does not tell whether it is visible, so what is staged stays where it is.

        Args:
            staged: what was staged.
            batch: the epoch.
            expected: the epochs that the place should have.

        Returns:
            What is published: the very manifest, or that of the run that came first.

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
        found: Manifest | None = staged
        if not self._directory.create(name, staged.encode()):
            found = read_manifest(self._directory, staged.epoch)
        if found is None:
            # It was there a moment ago, and nothing of this package ever removes one.
            raise error_of(
                "CLEANCUT_SINK_CORRUPTED",
                path=self._directory.at(name),
                detail="it was removed while the epoch was published",
            )
        if found.attempt != attempt:
            found.check(batch, self._directory.location)
        if found.attempt != attempt or not staged.files:
            self._delete(attempt)
        if not counts_now(self._directory, batch.epoch):
            hide_manifest(self._directory, found)
            raise rolled_back(batch, self._directory.location)
        self._seen = self._last = found
        return found

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
        """Deletes what attempts have left that were never published, up to this epoch.

        They never will be: each epoch up to this one has its manifest, or had to have it before
        this one was begun. Attempts of later epochs may be those of a run that goes on, and are
        looked at when their epoch is published. What appears after the first epoch of a run is left
        to the next run: this one leaves nothing but when it dies. What was taken back may be given
        back, and stays.
        """
        if self._left is None:
            # In this order, so that no attempt is seen whose manifest is not.
            kept = set(taken_back(self._directory.names(TAKEN_BACK)))
            found = set(attempts(self._directory.names(FILES))) - kept
            # Files of expired epochs are deleted after their grace period.
            self._left = sorted(of for of in found if of.epoch > self._expired)
            self._kept = set(manifest_epochs(self._directory.names(EPOCHS)))
        due = [attempt for attempt in self._left if attempt.epoch <= epoch]
        self._left = self._left[len(due) :]
        for of, group in groupby(due, lambda attempt: attempt.epoch):
            for attempt in self._unpublished(of, list(group)):
                self._delete(attempt)

    def _unpublished(self, epoch: int, found: list[Attempt]) -> "Iterable[Attempt]":
        manifest: Manifest | None = None
        if self._seen is not None and self._seen.epoch == epoch:
            manifest = self._seen
        elif epoch in self._kept:
            # One directory beside one manifest is the manifest's, and needs no request.
            if len(found) == 1:
                return ()
            manifest = read_manifest(self._directory, epoch)
        kept = manifest.attempt if manifest is not None and manifest.files else None
        return (attempt for attempt in found if attempt != kept)

    def _delete(self, attempt: Attempt) -> None:
        try:
            self._directory.delete(attempt.directory)
        except Exception as failure:  # whatever the store says
            # The epoch is published; that there is something beside it changes no result.
            place = self._directory.at(attempt.directory)
            _LOG.warning("%s is of no use and could not be deleted: %s", place, failure)
