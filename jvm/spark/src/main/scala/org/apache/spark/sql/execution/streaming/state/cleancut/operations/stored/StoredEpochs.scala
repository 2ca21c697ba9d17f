package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import java.io.{ByteArrayInputStream, InputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.Instant

import org.apache.hadoop.fs.Path

import io.cleancut.cutstore.{CutArchive, StoredCut}
import io.cleancut.format.CutLayout

/**
 * An epoch that was committed, as the logs or its cut have it.
 *
 * @param cut
 *   where epochs are committed by cuts, and this is not the last one
 */
final private[operations] case class StoredEpoch(
    number: Long,
    offsets: EpochLogs.Offsets,
    commit: EpochLogs.Commit,
    cut: Option[StoredCut] = None
)

/**
 * The epochs of a query whose states are there. A cut holds what Spark's logs say of its epoch, so
 * that a savepoint may be older than these.
 *
 * @param last
 *   the last one
 * @param isOneOfThem
 *   whether that is as good as any other: for a copy, and where something has been begun after it
 *   that is to be left behind
 * @param refused
 *   ends the act for a reason
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
    if (number == last.number && !isOneOfThem) refused(s"epoch $number is its last one already")
    val found = archive match {
      case Some(cuts) => cuts.cuts.open(number).map(ofCut)
      case None       =>
        for (offsets <- logs.offsetLog.get(number); commit <- logs.commitLog.get(number))
          yield StoredEpoch(number, offsets, commit)
    }
    found.getOrElse(refused(s"there is no epoch $number to go back to; $there"))
  }

  private def there: String =
    if (committed.isEmpty) "there is none at all"
    else s"there are those from ${committed.head} to ${committed.last} that were committed"

  private def savepoint(name: String): StoredEpoch = {
    if (!CutLayout.isSavepoint(name)) refused(s"'$name' cannot be the name of a savepoint")
    val cuts = archive.getOrElse(refused("its epochs are committed without cuts"))
    val found = cuts.savepoints.open(name).getOrElse(refused(s"it has no savepoint '$name'"))
    if (found.head.epoch == last.number && !isOneOfThem) {
      refused(s"the savepoint '$name' is of epoch ${last.number}, which is its last one already")
    }
    ofCut(found)
  }

  private def ofCut(cut: StoredCut) = StoredEpochs.of(cut, offsets, commits)

  /** Times ascend with epochs, so that few are looked at. */
  private def lastUntil(wallMs: Long): Long = {
    var (low, high) = (0, committed.size)
    while (low < high) {
      val middle = (low + high) / 2
      if (timeOf(committed(middle)) <= wallMs) low = middle + 1 else high = middle
    }
    if (low == 0) {
      val first = committed.headOption.fold("")(of => s", the first at ${asTime(timeOf(of))}")
      refused(s"no epoch was committed by ${asTime(wallMs)} that can be gone back to$first")
    }
    committed(low - 1)
  }

  private def timeOf(epoch: Long): Long = archive match {
    case Some(cuts) => cuts.cuts.head(epoch).fold(Long.MaxValue)(_.writtenMs)
    case None       => commits.writtenMs(epoch)
  }

  private def asTime(wallMs: Long) = Instant.ofEpochMilli(wallMs).toString

  /** Cuts may be older than what Spark keeps of its log. */
  private def entryOf(epoch: Long): Option[EpochLogs.Offsets] = logs.offsetLog
    .get(epoch)
    .orElse(archive.flatMap(_.cuts.head(epoch)).map(cut => offsets.parse(cut.offsets)))

  private def beforeRollback: Long = committed.reverseIterator
    .flatMap(entryOf(_).flatMap(OfflineMarks.rolledBackFrom))
    .nextOption()
    .getOrElse(refused("its logs have no rollback that could be undone"))
}

/** Reads entries of the offset log that lie elsewhere. */
final private class StoredOffsets(of: OfflinePlace) extends OffsetsAtRest(of.session, of.location) {
  def parse(text: String): EpochLogs.Offsets = deserialize(StoredEpochs.stream(text))
}

/** The same of the commit log, and tells when its own were written. */
final private class StoredCommits(of: OfflinePlace) extends CommitsAtRest(of.session, of.location) {
  def parse(text: String): EpochLogs.Commit = deserialize(StoredEpochs.stream(text))

  def writtenMs(epoch: Long): Long = {
    val path = batchIdToPath(epoch)
    fileManager
      .list(metadataPath, (of: Path) => of.getName == path.getName)
      .headOption
      .fold(Long.MaxValue)(_.getModificationTime)
  }
}

private[operations] object StoredEpochs {

  /** The epoch of a cut, which has the entries of both logs. */
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
