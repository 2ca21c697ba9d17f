package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointLogs,
  ObjectPaths
}

import io.cleancut.base.{Clock, ParallelReads, Recent}
import io.cleancut.cutstore.{CutArchive, CutParts, StoredCut}
import io.cleancut.format.{CutLayout, StoreLayout}
import io.cleancut.objectstore.{ObjectInfo, ObjectPrefix, ObjectStore}
import io.cleancut.objectstore.readahead.{ReadAhead, ReadAheadStore, ReadPlan}

/**
 * The reads ahead of the runs that begin in this driver, by checkpoint location. They serve only
 * the thread of the run that made them.
 */
object StartReads {
  private val MaxStarts = 64
  private val starts = new Recent[String, ReadAhead](MaxStarts)

  /** The objects of a bucket, as the run at a checkpoint location reads them. */
  def view(bucket: ObjectStore, checkpoint: Path): ObjectStore = {
    val location = checkpoint.toString
    new ReadAheadStore(bucket, () => starts.synchronized(Option(starts.get(location))))
  }

  /** The same for a path in a checkpoint location, or elsewhere. */
  def viewAround(bucket: ObjectStore, path: Path): ObjectStore = {
    val parents = Iterator.iterate(path)(_.getParent).takeWhile(_ != null).map(_.toString).toSeq
    new ReadAheadStore(
      bucket,
      () => starts.synchronized(parents.flatMap(at => Option(starts.get(at))).headOption)
    )
  }

  /** Reads ahead for the run of the calling thread, which owns its query. */
  def fill(bucket: ObjectStore, checkpoint: Path): Unit = {
    val thread = Thread.currentThread
    val reads =
      new ReadAhead(
        bucket,
        ParallelReads.shared,
        Clock.System,
        () => Thread.currentThread eq thread
      )
    starts.synchronized {
      starts.values.removeIf(_.isOver)
      starts.put(checkpoint.toString, reads)
    }
    reads.fill(ofRun(rootOf(checkpoint)))
  }

  /** The run has planned its first epoch. */
  def end(checkpoint: Path): Unit =
    starts.synchronized(Option(starts.remove(checkpoint.toString))).foreach(_.end())

  /** The objects of a bucket, read ahead for the checks before a run, which owns nothing. */
  def beforeRun(bucket: ObjectStore, checkpoint: Path): ObjectStore = {
    val reads = new ReadAhead(bucket, ParallelReads.shared, Clock.System, () => true)
    reads.fill(ofChecks(rootOf(checkpoint)))
    new ReadAheadStore(bucket, () => Some(reads))
  }

  /**
   * The last cut. Its pages and tables are read into the cache of this process in the background:
   * they are never replaced, so it does not matter when they are read.
   */
  def lastCut(archive: CutArchive): Option[StoredCut] = {
    val cuts = archive.cuts
    val last = cuts.epochs().lastOption.flatMap(cuts.open(_, CutParts.shared(archive)))
    last.foreach(cut => ParallelReads.shared.start(cut.fetch()))
    last
  }

  /**
   * What Spark reads until it has planned the first epoch.
   *
   * @param root
   *   prefix of the checkpoint location
   */
  def ofRun(root: ObjectPrefix): ReadPlan = {
    val logs = Seq(CheckpointLogs.Offsets, CheckpointLogs.Commits, CheckpointLogs.Sources)
    val below = (logs :+ State).map(name => ObjectPrefix(s"${root.name}$name/"))
    ReadPlan(
      Seq(root),
      below,
      infos => {
        val (state, others) = infos.partition(_.key.name.startsWith(s"${root.name}$State/"))
        val schemas = state.filter(info => Schemas.exists(info.key.name.contains(_)))
        selected(root, others) ++ schemas.sortBy(-_.modifiedMs)
      }
    )
  }

  private def ofChecks(root: ObjectPrefix): ReadPlan = {
    val cuts = ObjectPrefix(s"${root.name}${StoreLayout.RootName}/${CutLayout.Cuts}")
    val offsets = ObjectPrefix(s"${root.name}${CheckpointLogs.Offsets}/")
    ReadPlan(
      Seq(root),
      Seq(offsets, cuts),
      infos => {
        def isCut(info: ObjectInfo) =
          CutLayout.parseCut(info.key.name.stripPrefix(cuts.name)).isDefined
        val (ofCuts, others) = infos.partition(_.key.name.startsWith(cuts.name))
        selected(root, others) ++ ofCuts.filter(isCut).sortBy(_.key.name).lastOption
      }
    )
  }

  /** The file with the query ID, and the last entries of each log. */
  private def selected(root: ObjectPrefix, infos: Seq[ObjectInfo]): Seq[ObjectInfo] = {
    val (here, below) = infos.partition(_.key.name.lastIndexOf('/') < root.name.length)
    val logs = below.groupBy(info => info.key.name.take(info.key.name.lastIndexOf('/')))
    val entries = logs.values.toSeq.flatMap { log =>
      val numbered = log.flatMap(info => numberOf(info).map(_ -> info)).sortBy(_._1).map(_._2)
      // A log is read from its last compacted entry on.
      val compacted = numbered.lastIndexWhere(_.key.name.endsWith(Compacted))
      numbered
        .drop(Math.max(compacted, 0))
        .takeRight(if (compacted < 0) LastEntries else MaxEntries)
    }
    here.filter(_.key.lastSegment == CheckpointLogs.Metadata) ++ entries
  }

  private def numberOf(info: ObjectInfo): Option[Long] =
    info.key.lastSegment.stripSuffix(Compacted).toLongOption

  private def rootOf(checkpoint: Path) = new ObjectPaths(checkpoint).prefix(checkpoint)

  private val State = "state"
  private val Schemas = Seq("/_metadata/", "/_stateSchema/")
  private val Compacted = ".compact"

  /** Spark reads the last entry and the one before it, and the first entry of most sources. */
  private val LastEntries = 2
  private val MaxEntries = 16
}
