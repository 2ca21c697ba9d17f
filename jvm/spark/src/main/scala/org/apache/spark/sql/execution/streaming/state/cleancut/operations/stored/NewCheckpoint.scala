package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.StreamMetadata
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.AtomicFile

import io.cleancut.error.Errors
import io.cleancut.format.StoreLayout
import io.cleancut.objectstore.WriteProbe

/** The files of a new checkpoint that Spark keeps in addition to state and epoch logs. */
private[operations] object NewCheckpoint {
  val Metadata = "metadata"
  val Sources = "sources"
  val Compacted = ".compact"
  private val Parts =
    Set(Metadata, Sources, "offsets", "commits", "state", StoreLayout.RootName)
  private val SchemaFile = ".*/(state/\\d+/_stateSchema/.*)".r
  private val LogOffset = "\"logOffset\"\\s*:\\s*(\\d+)".r.unanchored

  /**
   * Refuses a location that contains a checkpoint, complete or not, except for the remains of a
   * killed operation. Also refuses the location of the source.
   */
  def check(place: OfflinePlace, from: Option[String], refused: String => Nothing): Unit = {
    checkEmpty(place, refused)
    from.foreach { other =>
      if (place.location == other) refused("the target must be another location")
      if (place.location.startsWith(s"$other/") || other.startsWith(s"${place.location}/")) {
        refused(s"${place.location} is inside the source location or contains it")
      }
    }
    val exists = s"there is a checkpoint at ${place.location}"
    if (place.logs.commitLog.getLatest().isDefined) refused(s"$exists already")
    place.logs.offsetLog.getLatest() match {
      case Some((_, offsets)) =>
        if (!OfflineMarks.isOne(offsets)) refused(s"$exists, which has begun its first epoch")
      case None =>
        if (place.files.exists(new Path(place.location, Metadata))) refused(s"$exists already")
    }
  }

  /** Refuses a file, and a directory with files that do not belong to a checkpoint. */
  private def checkEmpty(place: OfflinePlace, refused: String => Nothing): Unit = {
    val root = new Path(place.location)
    if (place.files.exists(root)) place.files.list(root).toSeq.map(_.getPath).foreach { path =>
      val name = path.getName
      if (path.toUri.getPath == root.toUri.getPath) refused(s"${place.location} is a file")
      if (!name.startsWith(".") && !Parts(name) && !WriteProbe.isName(name))
        refused(s"${place.location} has other files, such as $name")
    }
  }

  /**
   * Writes the query ID: the ID of the source query, or a new one, which no sink takes for the
   * source.
   */
  def identify(place: OfflinePlace, from: OfflinePlace, operation: String, isOwn: Boolean): Unit = {
    val query =
      if (isOwn) OfflinePlace.newId().toString
      else
        StreamMetadata
          .read(new Path(from.location, Metadata), from.hadoopConf)
          .fold {
            val reason = "its file `metadata` with the id of the query is missing"
            throw Errors.operationRefused(operation, from.location, reason)
          }(_.id)
    identify(place, query)
  }

  /** Writes the query ID. */
  def identify(place: OfflinePlace, query: String): Unit = {
    val path = new Path(place.location, Metadata)
    place.files.delete(path)
    StreamMetadata.write(StreamMetadata(query), path, place.hadoopConf)
  }

  /**
   * Copies the logs of sources. Entries of a file source after the epoch are left out if possible,
   * so that the source discovers these files again, a few at a time.
   */
  def copySources(place: OfflinePlace, from: OfflinePlace, offsets: EpochLogs.Offsets): Unit = {
    val logs = new SourceLogs(from, offsets)
    for (log <- logs.names) {
      val names = logs.entriesOf(log)
      // The log of a source without an offset may have where the source begins.
      val last = logs.last(log).filter(_ >= 0 && logs.haveNamesOfSources)
      val (later, earlier) = names.partition(name => last.exists(isAfter(name, _)))
      // A compacted entry includes the entries before it.
      val copied = if (later.exists(_.endsWith(Compacted))) names else earlier
      copied.foreach(name => copy(place, from, s"$Sources/$log/$name"))
    }
  }

  private def isAfter(name: String, last: Long): Boolean = entryNumber(name).exists(_ > last)

  /** The number of an entry in the log of a source. */
  def entryNumber(name: String): Option[Long] = name.stripSuffix(Compacted).toLongOption

  /** The last entry in the log of a file source that an offset includes. */
  def logEntryOf(offset: Offset): Option[Long] =
    Some(offset.json).collect { case LogOffset(number) => number.toLong }

  /** Copies the state schemas that operator descriptions reference. */
  def copySchemas(place: OfflinePlace, from: OfflinePlace, query: StoredQuery): Unit =
    for (operator <- query.operators; store <- operator.stores) {
      val directory = s"state/${operator.id}/${StateStore.PARTITION_ID_TO_CHECK_SCHEMA}"
      val ofStore =
        if (store.name == StateStoreId.DEFAULT_STORE_NAME) directory
        else s"$directory/${store.name}"
      if (store.schemaFiles.isEmpty) copy(place, from, s"$ofStore/_metadata/schema")
      else store.schemaFiles.foreach(path => copy(place, from, relative(from.location, path)))
    }

  /** Copies the operator descriptions unchanged: they name schemas at their original location. */
  def copyDescriptions(place: OfflinePlace, from: OfflinePlace, query: StoredQuery): Unit =
    for (operator <- query.operators) {
      val metadata = s"state/${operator.id}/_metadata"
      for (
        directory <- Seq(metadata, s"$metadata/v2"); name <- namesIn(from, directory)
        if name != "v2"
      )
        copy(place, from, s"$directory/$name")
    }

  /** Assigns descriptions of the second form, which belong to an epoch each, to another epoch. */
  def redescribe(place: OfflinePlace, epoch: Long, as: Long): Unit = if (epoch != as) {
    for (operator <- directoriesIn(place, "state")) {
      val directory = s"state/$operator/_metadata/v2"
      if (namesIn(place, directory).contains(epoch.toString)) {
        copy(place, place, s"$directory/$epoch", s"$directory/$as")
        place.files.delete(new Path(place.location, s"$directory/$epoch"))
      }
    }
  }

  private def directoriesIn(place: OfflinePlace, directory: String) = {
    val path = new Path(place.location, directory)
    if (place.files.exists(path))
      place.files.list(path).toSeq.filter(_.isDirectory).map(_.getPath.getName)
    else Nil
  }

  /** The path of the copy of a checkpoint file. */
  def pathIn(place: OfflinePlace, home: String, path: String): String =
    s"${place.location}/${relative(home, path)}"

  /**
   * The path of a state schema in the scheme of its location: `s3:` and not `s3a:`. Descriptions of
   * operators have absolute paths, so they name the former location if the files were moved.
   */
  def schemaBelow(location: String, path: String, hadoopConf: Configuration): String = {
    val home = s"${plain(location)}/"
    def at(name: String) = new Path(location, name)
    plain(path) match {
      case below if below.startsWith(home) => s"$location/${below.stripPrefix(home)}"
      case SchemaFile(name)
          if CheckpointFileManager.create(at(name), hadoopConf).exists(at(name)) =>
        s"$location/$name"
      case _ => path
    }
  }

  /** Spark may write the same location with a different number of slashes. */
  private def relative(home: String, path: String): String =
    plain(path).stripPrefix(plain(home)).stripPrefix("/")

  private def plain(path: String): String = new Path(path).toUri.getPath

  /** The files in a directory of a checkpoint; empty if it does not exist. */
  def namesIn(place: OfflinePlace, directory: String): Seq[String] = {
    val path = new Path(place.location, directory)
    val files = place.files
    if (!files.exists(path)) Nil
    else files.list(path).toSeq.map(_.getPath.getName).filterNot(_.startsWith(".")).sorted
  }

  private def copy(place: OfflinePlace, from: OfflinePlace, name: String): Unit =
    copy(place, from, name, name)

  private def copy(place: OfflinePlace, from: OfflinePlace, name: String, as: String): Unit = {
    val (source, target) = (new Path(from.location, name), new Path(place.location, as))
    place.files.mkdirs(target.getParent)
    Using.resource(from.files.open(source)) { in =>
      AtomicFile.write(place.files, target, overwrites = true) { out =>
        in.transferTo(out)
        ()
      }
    }
  }
}
