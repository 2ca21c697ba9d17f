package io.cleancut.golden

import java.io.ByteArrayInputStream
import java.util.zip.CRC32

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.format.{CutLayout, FrameName, PlacedFrame, SegmentEnd, SegmentIdentity}
import io.cleancut.format.cut._
import io.cleancut.format.frame.{BlockScratch, FrameReader, FrameRequest}

/** Cuts and segments that an independent encoder wrote, read as the vectors specify. */
class CutVectorsSuite extends AnyFunSuite {

  for (vector <- Vectors.cuts)
    if (vector.json.has("content")) test(s"the cut ${vector.name} is read")(readCut(vector))
    else test(s"the cut ${vector.name} is refused")(refuse(vector)(parseCut(vector)))

  for (vector <- Vectors.segments)
    if (vector.json.has("content")) test(s"the segment ${vector.name} is read")(readSegment(vector))
    else test(s"the segment ${vector.name} is refused")(refuse(vector)(readFrames(vector)))

  test("there are vectors of sound and of damaged cuts and segments") {
    val (sound, damaged) = (Vectors.cuts ++ Vectors.segments).partition(_.json.has("content"))
    assert(sound.size >= 6 && damaged.size >= 50)
  }

  private def parseCut(vector: Vectors.Vector): Cut = {
    val name = nameOf(vector)
    val epoch = CutLayout.parseCut(name.stripPrefix(CutLayout.Cuts)).get
    assert(CutLayout.cut(epoch) == name)
    Cut.parse(name, epoch, vector.bytes)
  }

  private def readCut(vector: Vectors.Vector): Assertion = {
    val body = vector.json.get("content").get("body")
    val cut = parseCut(vector)
    assert(cut.run.runId == body.get("runId").asText)
    assert(cut.run.generation == body.get("generation").asLong)
    assert(cut.run.queryId == Option(body.get("queryId")).filter(_.isTextual).map(_.asText))
    assert(cut.commit == body.get("commit").asText && cut.offsets == body.get("offsets").asText)
    val segments = Vectors.elements(body.get("segments")).map(_.asText)
    val field = if (body.has("stores")) "stores" else "inFlight"
    val expected = Vectors.elements(body.get(field)).map { store =>
      val frames = Vectors.elements(store.get("frames")).map(Vectors.elements).map { f =>
        s"${segments(f.head.asInt)} ${f.tail.map(_.asText).mkString(" ")}"
      }
      Vectors.store(store) -> frames
    }
    val actual = cut.stores.map { store =>
      store.store -> store.frames.map { case (kind, version, place) =>
        s"${place.segment} ${kind.extension} ${version.number} ${version.id} ${place.offset} " +
          s"${place.length} ${Integer.toUnsignedLong(place.crc)}"
      }
    }
    assert(actual == expected)
    readPaged(cut.paged, body)
    assert(cut.costs.isDefined == body.has("costs"))
    cut.costs.foreach(readCosts(_, body.get("costs")))
    readChannels(cut, Vectors.elements(body.path("channels")))
    val sinks = Vectors.elements(body.path("sinks")).map { sink =>
      val epochs = Vectors.elements(sink.get("epochs")).map(Vectors.elements)
      sink.get("name").asText -> epochs.map(range => range(0).asLong -> range(1).asLong).toVector
    }
    assert(cut.sinks.ranges == sinks.toMap)
    assert(Cut.parse("again", cut.epoch, cut.toBytes) == cut)
  }

  private def readPaged(paged: PagedChains, body: JsonNode): Assertion = {
    def numbers(array: JsonNode) = Vectors.elements(array).map(_.asLong)
    val pages = Vectors.elements(body.get("pages")).map { page =>
      val crc = page.get("crc").asLong.toInt
      val stores = page.get("stores").asInt
      PageRef(page.get("name").asText, page.get("length").asLong, crc, stores, Vectors.store(page))
    }
    val window = Vectors.elements(body.get("window")).map { part =>
      val counted =
        if (part.has("counted")) Counted.Only(numbers(part.get("counted")))
        else if (part.has("uncounted")) Counted.Except(numbers(part.get("uncounted")))
        else Counted.All
      val crc = part.get("crc").asLong.toInt
      val end = SegmentEnd(part.get("length").asLong, part.get("footer").asInt, crc)
      WindowPart(part.get("segment").asText, part.get("epoch").asLong, end, counted)
    }
    assert(paged == PagedChains(body.get("storeCount").asInt, pages, window))
  }

  private def readChannels(cut: Cut, channels: Seq[JsonNode]): Assertion = {
    assert(cut.channels.map(_.channel) == channels.map(Vectors.store))
    assert(cut.channels.map(_.input.rows) == channels.map(_.get("rows").asLong))
    assert(cut.channels.map(_.deferred.rows) == channels.map(_.get("rowsInFlight").asLong))
    val courses = channels.filter(_.has("arrivedMs")).map { channel =>
      def optional(field: String) = Option(channel.get(field)).map(_.asLong)
      Vectors.store(channel) -> ChannelCourse(
        channel.path("rowsReplayed").asLong,
        channel.path("bytesInFlight").asLong,
        channel.path("rowsBeyondBound").asLong,
        channel.get("arrivedMs").asLong,
        optional("overtakenMs"),
        optional("captureMs")
      )
    }
    assert(cut.courses == courses.toMap)
  }

  private def readCosts(costs: EpochCosts, body: JsonNode): Assertion = {
    assert(costs.executorCount == body.get("executors").path("count").asInt)
    for ((share, side) <- Seq(costs.driver -> "driver", costs.executors -> "executors")) {
      val expected = body.get(side)
      val kinds = expected.get("requests").properties.asScala.map { kind =>
        def count(name: String) = kind.getValue.get(name).asLong
        kind.getKey -> KindCosts(count("requests"), count("retries"), count("failures"))
      }
      def number(name: String) = expected.path(name).asLong
      assert(
        share == ShareCosts(
          kinds.toMap,
          number("bytesSent"),
          number("bytesReceived"),
          number("frames"),
          number("frameBytes"),
          number("segments"),
          number("segmentBytes")
        )
      )
    }
    val slowest = Vectors.elements(body.get("slowest")).map { time =>
      val (executor, host) = (time.path("executor").asText, time.path("host").asText)
      StoreTime(Vectors.store(time), executor, host, time.get("ms").asLong)
    }
    assert(costs.slowest == slowest)
  }

  private def parseSegment(vector: Vectors.Vector): (SegmentIdentity, Seq[PlacedFrame]) = {
    val bytes = vector.bytes
    val footer = Segment.footerBytes(nameOf(vector), bytes, bytes.length.toLong)
    Segment.parse(nameOf(vector), bytes, bytes.takeRight(footer))
  }

  private def readFrames(vector: Vectors.Vector): Unit =
    for (frame <- parseSegment(vector)._2) {
      val from = frame.place.offset.toInt
      val bytes = vector.bytes.slice(from, from + frame.place.length.toInt)
      val FrameName(store, version, kind) = frame.name
      val crc = new CRC32
      crc.update(bytes)
      if (crc.getValue.toInt != frame.place.crc)
        throw Errors.frameCorrupted(nameOf(vector), 0, 0, "", 1, "not as the table says")
      val scratch = BlockScratch.borrow()
      try {
        val request = FrameRequest(nameOf(vector), store, version, kind)
        val reader = new FrameReader(request, new ByteArrayInputStream(bytes), scratch)
        while (reader.nextBlock() > 0) {}
      } finally scratch.giveBack()
    }

  private def readSegment(vector: Vectors.Vector): Assertion = {
    val content = vector.json.get("content")
    val (identity, table) = parseSegment(vector)
    readFrames(vector)
    val expected = content.get("identity")
    assert(
      identity == SegmentIdentity(
        expected.get("epoch").asLong,
        expected.get("writer").asText,
        expected.get("runId").asText,
        expected.get("generation").asLong
      )
    )
    assert(table.map(describe) == Vectors.elements(content.get("table")).map(describe))
    val again = new Segment(nameOf(vector), identity).footer(table)
    val header = new Segment(nameOf(vector), identity).header
    val (sameIdentity, sameTable) = Segment.parse(nameOf(vector), header, again)
    // Another encoder may compress differently.
    def places(frames: Seq[PlacedFrame]) = frames.map(_.copy(segment = None))
    assert(sameIdentity == identity && places(sameTable) == places(table))
  }

  private def describe(json: JsonNode): String =
    Seq("kind", "version", "id", "attempt", "offset", "length", "crc")
      .map(json.get(_).asText)
      .mkString(s"${Vectors.store(json)} ", " ", "")

  private def describe(frame: PlacedFrame): String = {
    val PlacedFrame(FrameName(store, version, kind), place, attempt, _) = frame
    s"$store ${kind.extension} ${version.number} ${version.id} $attempt ${place.offset} " +
      s"${place.length} ${Integer.toUnsignedLong(place.crc)}"
  }

  private def refuse(vector: Vectors.Vector)(read: => Any): Assertion = {
    val thrown = intercept[CleancutException](read)
    assert(thrown.getErrorId == vector.json.get("error").asText)
    assert(thrown.getMessage.contains(nameOf(vector)))
  }

  private def nameOf(vector: Vectors.Vector): String =
    vector.json.get("request").get("name").asText
}
