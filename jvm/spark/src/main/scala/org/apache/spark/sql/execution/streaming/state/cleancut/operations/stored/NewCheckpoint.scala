package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import scala.util.Using

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.execution.streaming.runtime.StreamMetadata
import org.apache.spark.sql.execution.streaming.state._

import io.cleancut.error.Errors
import io.cleancut.format.StoreLayout
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.AtomicFile

/** What Spark keeps beside state and logs of epochs, in the place of a checkpoint that is made. */
private[operations] object NewCheckpoint {
  val Metadata = "metadata"
  val Sources = "sources"
  val Compacted = ".compact"
  private val Parts =
    Set(Metadata, Sources, "offsets", "commits", "state", StoreLayout.RootName)
  private val LogOffset = "\"logOffset\"\\s*:\\s*(\\d+)".r.unanchored

  /**
   * Refuses a place where a checkpoint is, whole or not, but for what a killed act has left; and
   * that of what it is made of.
   */
  def check(place: OfflinePlace, from: Option[String], refused: String => Nothing): Unit = {
    checkEmpty(place, refused)
    from.foreach { other =>
      if (place.location == other) refused("it cannot be made where it is")
      if (place.location.startsWith(s"$other/") || other.startsWith(s"${place.location}/")) {
        refused(s"${place.location} lies within it, or around it")
      }
    }
    val there = s"there is a checkpoint at ${place.location}"
    if (place.logs.commitLog.getLatest().isDefined) refused(s"$there already")
    place.logs.offsetLog.getLatest() match {
      case Some((_, offsets)) =>
        if (!OfflineMarks.isOne(offsets)) refused(s"$there, which has begun its first epoch")
      case None =>
        if (place.files.exists(new Path(place.location, Metadata))) refused(s"$there already")
    }
  }

  /** Refuses a file, and a directory with files of anything but a checkpoint. */
  private def checkEmpty(place: OfflinePlace, refused: String => Nothing): Unit = {
    val root = new Path(place.location)
    if (place.files.exists(root)) place.files.list(root).toSeq.map(_.getPath).foreach { path =>
      val name = path.getName
      if (path.toUri.getPath == root.toUri.getPath) refused(s"${place.location} is a file")
      if (!name.startsWith(".") && !Parts(name))
        refused(s"${place.location} has other files, such as $name")
    }
  }

  /** Which query it is of: the same, or one of its own, which no sink takes for the other. */
  def identify(place: OfflinePlace, from: OfflinePlace, act: String, isOwn: Boolean): Unit = {
    val query =
      if (isOwn) OfflinePlace.newId().toString
      else
        StreamMetadata
          .read(new Path(from.location, Metadata), from.hadoopConf)
          .fold {
            val reason = "its file `metadata` with the id of the query is missing"
            throw Errors.operationRefused(act, from.location, reason)
          }(_.id)
    identify(place, query)
  }

  /** It is of the query with this id. */
  def identify(place: OfflinePlace, query: String): Unit = {
    val path = new Path(place.location, Metadata)
    place.files.delete(path)
    StreamMetadata.write(StreamMetadata(query), path, place.hadoopConf)
  }

  /**
   * Copies the logs of sources. The entries of a file source that come after the epoch are left out
   * where they can be, so that it finds these files again by itself, a few at a time.
   */
  def copySources(place: OfflinePlace, from: OfflinePlace, offsets: EpochLogs.Offsets): Unit =
    for (source <- namesIn(from, Sources)) {
      val log = s"$Sources/$source"
      val names = namesIn(from, log)
      val last = EpochLogs.bySource(offsets).toMap.get(source).flatten.flatMap(logEntryOf)
      val (later, own) = names.partition(name => last.exists(isAfter(name, _)))
      // Such an entry stands for those before it, too.
      val copied = if (later.exists(_.endsWith(Compacted))) names else own
      copied.foreach(name => copy(place, from, s"$log/$name"))
    }

  private def isAfter(name: String, last: Long): Boolean = entryNumber(name).exists(_ > last)

  /** The number of an entry in the log of a source. */
  def entryNumber(name: String): Option[Long] = name.stripSuffix(Compacted).toLongOption

  /** The last entry in the log of a file source that an offset includes. */
  def logEntryOf(offset: Offset): Option[Long] =
    Some(offset.json).collect { case LogOffset(number) => number.toLong }

  /** Copies the schemas of state that operators are described with. */
  def copySchemas(place: OfflinePlace, from: OfflinePlace, query: StoredQuery): Unit =
    for (operator <- query.operators; store <- operator.stores) {
      val own = s"state/${operator.id}/${StateStore.PARTITION_ID_TO_CHECK_SCHEMA}"
      val ofStore =
        if (store.name == StateStoreId.DEFAULT_STORE_NAME) own else s"$own/${store.name}"
      if (store.schemaFiles.isEmpty) copy(place, from, s"$ofStore/_metadata/schema")
      else store.schemaFiles.foreach(path => copy(place, from, relative(from.location, path)))
    }

  /** Copies what says of which kind operators are, as it is: schemas are named where they were. */
  def copyDescriptions(place: OfflinePlace, from: OfflinePlace, query: StoredQuery): Unit =
    for (operator <- query.operators) {
      val own = s"state/${operator.id}/_metadata"
      for (directory <- Seq(own, s"$own/v2"); name <- namesIn(from, directory) if name != "v2")
        copy(place, from, s"$directory/$name")
    }

  /** Has descriptions in the second form, of which each is of an epoch, be those of another one. */
  def redescribe(place: OfflinePlace, epoch: Long, as: Long): Unit = if (epoch != as) {
    for (operator <- directoriesIn(place, "state")) {
      val own = s"state/$operator/_metadata/v2"
      if (namesIn(place, own).contains(epoch.toString)) {
        copy(place, place, s"$own/$epoch", s"$own/$as")
        place.files.delete(new Path(place.location, s"$own/$epoch"))
      }
    }
  }

  private def directoriesIn(place: OfflinePlace, directory: String) = {
    val path = new Path(place.location, directory)
    if (place.files.exists(path))
      place.files.list(path).toSeq.filter(_.isDirectory).map(_.getPath.getName)
    else Nil
  }

  /** Where the copy of a file of a checkpoint lies. */
  def pathIn(place: OfflinePlace, home: String, path: String): String =
    s"${place.location}/${relative(home, path)}"

  /** The path of a file of a checkpoint by the scheme of its location: `s3:` and not `s3a:`. */
  def pathBelow(location: String, path: String): String = {
    val home = s"${plain(location)}/"
    if (plain(path).startsWith(home)) s"$location/${plain(path).stripPrefix(home)}" else path
  }

  /** Spark may have written the same location with another number of slashes. */
  private def relative(home: String, path: String): String =
    plain(path).stripPrefix(plain(home)).stripPrefix("/")

  private def plain(path: String): String = new Path(path).toUri.getPath

  /** The files of a directory of a checkpoint, if it is there. */
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
