package io.cleancut.format.cut

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.util.RawValue
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.error.Errors
import io.cleancut.format.{Chains, Channels, CutLayout, FormatMagic, Json, StoreCut}

/** Encodes and decodes cuts and seals. See `docs/FORMAT.md`, "Cut". */
private[format] object CutCodec {
  import Json.required

  // Entries of Spark's logs are texts of any length.
  private val mapper: ObjectMapper = Json.mapperOfLongTexts

  def parse(path: String, epoch: Option[Long], bytes: Array[Byte]): Cut = {
    def damaged(detail: String) = throw Errors.cutCorrupted(path, detail)
    val body = CheckedBody.decode(path, "a cut", FormatMagic.Cut, bytes)
    val cut =
      try read(mapper.readTree(body))
      catch { case NonFatal(e) => damaged(s"its body cannot be read: ${e.getMessage}") }
    if (epoch.exists(_ != cut.epoch)) damaged(s"it is the cut of epoch ${cut.epoch}")
    cut
  }

  def encode(cut: Cut, maxRawBytes: Int): Array[Byte] = {
    val held = cut.stores.size - cut.inFlight.size
    require(
      held == 0 || held == cut.paged.storeCount,
      s"it has $held stores, not all with references"
    )
    val body = Json.bounded(mapper, write(cut), maxRawBytes).getOrElse {
      throw tooLarge(cut, maxRawBytes)
    }
    CheckedBody.encode(FormatMagic.Cut, body)
  }

  private def tooLarge(cut: Cut, maxRawBytes: Int) = {
    val frames = cut.stores.map(_.frames.size)
    val texts = cut.commit.length.toLong + cut.offsets.length + cut.output.fold(0)(_.length)
    Errors.objectTooLarge(
      s"the cut of epoch ${cut.epoch}",
      maxRawBytes.toLong,
      s"${cut.stores.size} stores with ${frames.map(_.toLong).sum} frames, at most " +
        s"${frames.maxOption.getOrElse(0)} a store, and entries of Spark's logs and of the sink " +
        s"with $texts characters",
      "Shorten the chains of frames by spark.sql.streaming.stateStore.minDeltasForSnapshot, or " +
        "run with fewer shuffle partitions; if most of it is text, let the source keep its " +
        "offsets " +
        "shorter."
    )
  }

  private def write(cut: Cut): JsonNode = {
    val node = mapper.createObjectNode()
    node.put("epoch", cut.epoch)
    node.put("queryId", cut.run.queryId.orNull)
    node.put("runId", cut.run.runId)
    node.put("generation", cut.run.generation)
    node.put("token", cut.token)
    node.put("writtenMs", cut.writtenMs)
    node.put("mode", if (cut.inFlight.isEmpty) "aligned" else "unaligned")
    node.put("commit", cut.commit)
    node.put("offsets", cut.offsets)
    writeInFlight(node, cut.inFlight)
    PagedJson.write(cut.paged, node)
    val timings = node.putObject("timings")
    cut.timings.toSeq.sorted.foreach { case (phase, ms) => timings.put(phase, ms) }
    cut.costs.foreach(CostsJson.write(_, node.putObject("costs")))
    if (cut.channels.nonEmpty) {
      val channels = node.putArray("channels")
      cut.channels.foreach { report =>
        ChannelJson.write(report, cut.courses.get(report.channel), channels.addObject())
      }
    }
    cut.output.foreach(node.put("output", _))
    if (cut.late.nonEmpty) {
      val late = node.putArray("late")
      cut.late.foreach(base =>
        late.addObject().put("segment", base.segment).put("since", base.since)
      )
    }
    if (cut.referred.nonEmpty) {
      val referred = node.putArray("referred")
      cut.referred.foreach { reference =>
        val segments = referred.addObject().put("version", reference.version).putArray("segments")
        reference.segments.foreach(segments.add)
      }
    }
    if (cut.isClaim) node.put("claim", true)
    if (cut.sinks.ranges.nonEmpty) cut.sinks.write(node.putArray("sinks"))
    node
  }

  private def writeInFlight(node: ObjectNode, stores: Seq[StoreCut]): Unit = {
    val segments = stores.flatMap(_.frames.map(_._3.segment)).distinct
    val names = node.putArray("segments")
    segments.foreach(names.add)
    val indexOf = segments.zipWithIndex.toMap
    node.putRawValue("inFlight", new RawValue(new StoresJson(stores, indexOf)))
    ()
  }

  private def read(node: JsonNode): Cut = {
    val epoch = required(node, "epoch").asLong
    val stores = StoresJson.read(node, "inFlight").map(Chains.checked(epoch, _))
    val names = stores.map(_.store)
    require(names.distinct.size == names.size, "it names a store twice")
    require(names.forall(Channels.isChannel), "in-flight rows belong to no shuffle input")
    val channels = Option(node.get("channels")).toSeq.flatMap(_.elements.asScala)
    val timings = required(node, "timings").properties.asScala.map(e => e.getKey -> e.getValue)
    Cut(
      epoch,
      RunId(
        Option(node.get("queryId")).filter(_.isTextual).map(_.asText),
        required(node, "runId").asText,
        required(node, "generation").asLong
      ),
      required(node, "token").asText,
      required(node, "writtenMs").asLong,
      required(node, "commit").asText,
      required(node, "offsets").asText,
      stores,
      timings.map { case (phase, ms) => phase -> ms.asLong }.toMap,
      Option(node.get("costs")).map(CostsJson.read),
      channels.map(ChannelJson.read),
      channels.flatMap(ChannelJson.readCourse).toMap,
      Option(node.get("output")).filter(_.isTextual).map(_.asText),
      Option(node.get("late")).toSeq.flatMap(_.elements.asScala).map { base =>
        LateBase(required(base, "segment").asText, required(base, "since").asLong)
      },
      node.path("claim").asBoolean(false),
      PagedJson.read(node, epoch),
      Option(node.get("referred")).toSeq.flatMap(readReferred(_, epoch)),
      sinksOf(node, epoch)
    )
  }

  private def sinksOf(node: JsonNode, epoch: Long): SinkEpochs = {
    val sinks = SinkEpochs.read(node.get("sinks"))
    val isPast = sinks.ranges.values.forall(_.lastOption.forall(_._2 <= epoch))
    require(isPast, "it has published epochs of sinks after its epoch")
    sinks
  }

  private def readReferred(node: JsonNode, epoch: Long): Seq[Referred] = {
    require(node.isArray, "the references are not an array")
    val all = node.elements.asScala.toVector.map { entry =>
      val (version, segments) = (required(entry, "version"), required(entry, "segments"))
      require(version.isIntegralNumber && version.canConvertToLong, s"$version is not a version")
      require(segments.isArray, s"segments is $segments")
      val names = segments.elements.asScala.map(_.asText).toVector
      names.find(CutLayout.parseSegment(_).isEmpty).foreach { name =>
        throw new IllegalArgumentException(s"$name is not the name of a segment")
      }
      Referred(version.asLong, names)
    }
    val versions = all.map(_.version)
    val isAscending = versions.zip(versions.drop(1)).forall { case (a, b) => a < b }
    require(
      isAscending && versions.forall(version => version > 0 && version <= epoch + 1),
      s"it has $versions"
    )
    all
  }
}
