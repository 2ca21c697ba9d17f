package io.cleancut.format.cut

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import io.cleancut.error.Errors
import io.cleancut.format.Json

/**
 * The epochs that the sinks of a query have published, as recorded in its checkpoint, without
 * epochs that a rollback has undone. See `docs/FORMAT.md`, "Published epochs".
 *
 * @param ranges
 *   first and last epoch of each range, ascending, by the sink's ledger key
 */
final case class SinkEpochs(ranges: Map[String, Vector[(Long, Long)]]) {
  import SinkEpochs._

  /** Adds an epoch that these sinks have published; it must not be before the last one. */
  def published(sinks: Iterable[String], epoch: Long): SinkEpochs = {
    val added = sinks.foldLeft(ranges)((known, sink) =>
      known.updated(sink, extended(known.getOrElse(sink, Vector.empty), epoch))
    )
    val latest =
      added.toSeq.sortBy { case (sink, epochs) => (-epochs.last._2, sink) }.take(MaxSinks)
    SinkEpochs(latest.toMap)
  }

  private def extended(known: Vector[(Long, Long)], epoch: Long) = known.lastOption match {
    case Some((_, last)) if last >= epoch         => known
    case Some((first, last)) if last == epoch - 1 => known.init :+ (first -> epoch)
    case _ => (known :+ (epoch -> epoch)).takeRight(MaxRanges)
  }

  /** The epochs up to one. */
  def upTo(epoch: Long): SinkEpochs = SinkEpochs(
    ranges.view
      .mapValues(_.collect { case (first, last) if first <= epoch => first -> last.min(epoch) })
      .filter(_._2.nonEmpty)
      .toMap
  )

  /**
   * The epochs that count after operations on the checkpoint.
   *
   * @param operations
   *   epoch of each operation, and the epoch that it continues from; ascending, after all recorded
   *   epochs
   */
  def after(operations: Seq[(Long, Long)]): SinkEpochs = {
    val last = operations.reverseIterator.foldLeft(Long.MaxValue) {
      case (until, (epoch, source)) if epoch <= until => source
      case (until, _)                                 => until
    }
    upTo(last)
  }

  def write(node: ArrayNode): Unit = ranges.toSeq.sortBy(_._1).foreach { case (sink, sinkRanges) =>
    val array = node.addObject().put("name", sink).putArray("epochs")
    sinkRanges.foreach { case (first, last) => array.addArray().add(first).add(last) }
  }
}

object SinkEpochs {

  /** Limit of ranges per sink; earlier epochs are not recorded. */
  val MaxRanges = 32

  /** Limit of sinks; those that published last are recorded. */
  val MaxSinks = 100

  val Empty: SinkEpochs = SinkEpochs(Map.empty)

  /** Throws `IllegalArgumentException` if the record is invalid. */
  def read(node: JsonNode): SinkEpochs = if (node == null) Empty
  else {
    require(node.isArray, "the epochs of sinks are not an array")
    val all = node.elements.asScala.map { entry =>
      val (name, epochs) = (Json.required(entry, "name"), Json.required(entry, "epochs"))
      require(name.isTextual, s"$name is not the name of a sink")
      require(epochs.isArray && !epochs.isEmpty, s"the epochs of $name are $epochs")
      name.asText -> epochs.elements.asScala.map(range(_, name.asText)).toVector
    }.toVector
    require(all.map(_._1).distinct.size == all.size, "it has the epochs of a sink twice")
    all.foreach { case (name, sinkRanges) =>
      val ascends =
        sinkRanges.zip(sinkRanges.drop(1)).forall { case ((_, last), (first, _)) => last < first }
      require(ascends, s"the epochs of $name do not ascend")
    }
    SinkEpochs(all.toMap)
  }

  private def range(node: JsonNode, sink: String): (Long, Long) = {
    val bounds = if (node.isArray) node.elements.asScala.toVector else Vector.empty
    require(
      bounds.size == 2 && bounds.forall(bound =>
        bound.isIntegralNumber && bound.canConvertToLong
      ) &&
        bounds(0).asLong >= 0 && bounds(0).asLong <= bounds(1).asLong,
      s"$node is not a range of epochs of $sink"
    )
    bounds(0).asLong -> bounds(1).asLong
  }
}

/**
 * The record of a checkpoint whose epochs are not committed by cuts.
 *
 * @param until
 *   epoch after which it was written
 */
final case class StoredSinkEpochs(until: Long, sinks: SinkEpochs) {

  def toBytes: Array[Byte] = {
    val node: ObjectNode = StoredSinkEpochs.mapper.createObjectNode()
    node.put("formatVersion", StoredSinkEpochs.Version).put("epoch", until)
    sinks.write(node.putArray("sinks"))
    StoredSinkEpochs.mapper.writeValueAsString(node).getBytes(UTF_8)
  }
}

object StoredSinkEpochs {

  /** Object name below `<checkpointLocation>/cleancut`. */
  val Name = "sinks.json"
  private val Version = 1
  private val mapper = Json.mapperOfLongTexts

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED
   */
  def parse(path: String, bytes: Array[Byte]): StoredSinkEpochs =
    try {
      val node = mapper.readTree(new String(bytes, UTF_8))
      val version = Json.required(node, "formatVersion").asInt
      require(version == Version, s"it has version $version, not $Version")
      StoredSinkEpochs(Json.required(node, "epoch").asLong, SinkEpochs.read(node.get("sinks")))
    } catch { case NonFatal(e) => throw Errors.cutCorrupted(path, e.getMessage) }
}
