package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import java.io.{ByteArrayInputStream, InputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.Instant

import org.apache.hadoop.fs.Path

import io.cleancut.cutstore.{CutArchive, StoredCut}
import io.cleancut.format.CutLayout

/**
 * A committed epoch, from the logs or from its cut.
 *
 * @param cut
 *   its cut, if epochs are committed by cuts and this is not the last one
 */
final private[operations] case class StoredEpoch(
    number: Long,
    offsets: EpochLogs.Offsets,
    commit: EpochLogs.Commit,
    cut: Option[StoredCut] = None
)

/**
 * The epochs of a query whose states are stored. A cut contains the log entries of its epoch, so a
 * savepoint may be older than the logs.
 *
 * @param last
 *   the last epoch
 * @param isOneOfThem
 *   whether the last epoch can be selected: for a copy, or if an incomplete later epoch exists that
 *   a rollback discards
 * @param refused
 *   ends the operation with a reason
 */
final private[operations] class StoredEpochs(
    place: OfflinePlace,
    logs: EpochLogs,
    last: StoredEpoch,
    isOneOfThem: Boolean,
    refused: String => Nothing
) {
  private val archive: Option[CutArchive] = place.cuts.map(_._1)

  def find(source: OfflineSource): StoredEpoch = source match {
    case OfflineSource.Last =>
      if (isOneOfThem) archive.fold(last)(_ => epoch(last.number)) else last
    case OfflineSource.Epoch(number)   => epoch(number)
    case OfflineSource.Savepoint(name) => savepoint(name)
    case OfflineSource.Time(wallMs)    => epoch(lastUntil(wallMs))
    case OfflineSource.BeforeRollback  => epoch(beforeRollback)
  }

  private lazy val offsets = new StoredOffsets(place)
  private lazy val commits = new StoredCommits(place)

  private lazy val committed: IndexedSeq[Long] =
    archive.fold(logs.commitLog.listBatchesOnDisk.toSeq)(_.cuts.epochs()).sorted.toIndexedSeq

  private def epoch(number: Long): StoredEpoch = {
    if (number == last.number && !isOneOfThem) refused(s"epoch $number is already the last one")
    val stored = archive match {
      case Some(cuts) => cuts.cuts.open(number).map(ofCut)
      case None       =>
        for (offsets <- logs.offsetLog.get(number); commit <- logs.commitLog.get(number))
          yield StoredEpoch(number, offsets, commit)
    }
    stored.getOrElse(refused(s"epoch $number is not stored; $storedRange"))
  }

  private def storedRange: String =
    if (committed.isEmpty) "no epoch is stored"
    else s"committed epochs ${committed.head} to ${committed.last} are stored"

  private def savepoint(name: String): StoredEpoch = {
    if (!CutLayout.isSavepoint(name)) refused(s"'$name' cannot be the name of a savepoint")
    val cuts = archive.getOrElse(refused("its epochs are committed without cuts"))
    val savepoint = cuts.savepoints.open(name).getOrElse(refused(s"it has no savepoint '$name'"))
    if (savepoint.head.epoch == last.number && !isOneOfThem) {
      refused(s"savepoint '$name' is epoch ${last.number}, which is already the last one")
    }
    ofCut(savepoint)
  }

  private def ofCut(cut: StoredCut) = StoredEpochs.of(cut, offsets, commits)

  /** Times ascend with epochs, so a binary search reads few entries. */
  private def lastUntil(wallMs: Long): Long = {
    var (low, high) = (0, committed.size)
    while (low < high) {
      val middle = (low + high) / 2
      if (timeOf(committed(middle)) <= wallMs) low = middle + 1 else high = middle
    }
    if (low == 0) {
      val first = committed.headOption.fold("")(first => s", the first at ${asTime(timeOf(first))}")
      refused(s"no stored epoch was committed by ${asTime(wallMs)}$first")
    }
    committed(low - 1)
  }

  private def timeOf(epoch: Long): Long = archive match {
    case Some(cuts) => cuts.cuts.head(epoch).fold(Long.MaxValue)(_.writtenMs)
    case None       => commits.writtenMs(epoch)
  }

  private def asTime(wallMs: Long) = Instant.ofEpochMilli(wallMs).toString

  /** Cuts may be older than Spark's offset log. */
  private def entryOf(epoch: Long): Option[EpochLogs.Offsets] = logs.offsetLog
    .get(epoch)
    .orElse(archive.flatMap(_.cuts.head(epoch)).map(cut => offsets.parse(cut.offsets)))

  private def beforeRollback: Long = committed.reverseIterator
    .flatMap(entryOf(_).flatMap(OfflineMarks.rolledBackFrom))
    .nextOption()
    .getOrElse(refused("its logs contain no rollback to undo"))
}

/** Parses entries of the offset log that are stored elsewhere. */
final private class StoredOffsets(place: OfflinePlace)
    extends ReadOnlyOffsetLog(place.session, place.location) {
  def parse(text: String): EpochLogs.Offsets = deserialize(StoredEpochs.stream(text))
}

/** The same for the commit log; also returns when its entries were written. */
final private class StoredCommits(place: OfflinePlace)
    extends ReadOnlyCommitLog(place.session, place.location) {
  def parse(text: String): EpochLogs.Commit = deserialize(StoredEpochs.stream(text))

  def writtenMs(epoch: Long): Long = {
    val path = batchIdToPath(epoch)
    fileManager
      .list(metadataPath, (file: Path) => file.getName == path.getName)
      .headOption
      .fold(Long.MaxValue)(_.getModificationTime)
  }
}

private[operations] object StoredEpochs {

  /** The epoch of a cut, which contains the entries of both logs. */
  def of(place: OfflinePlace, cut: StoredCut): StoredEpoch =
    of(cut, new StoredOffsets(place), new StoredCommits(place))

  private def of(cut: StoredCut, offsets: StoredOffsets, commits: StoredCommits) = StoredEpoch(
    cut.head.epoch,
    offsets.parse(cut.head.offsets),
    commits.parse(cut.head.commit),
    Some(cut)
  )

  def stream(text: String): InputStream = new ByteArrayInputStream(text.getBytes(UTF_8))
}
