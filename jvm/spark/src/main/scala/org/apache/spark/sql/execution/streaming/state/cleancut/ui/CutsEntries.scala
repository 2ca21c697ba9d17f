package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.{DeflaterOutputStream, InflaterInputStream}

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.annotation.JsonIgnore

import org.apache.spark.sql.execution.streaming.state.cleancut.history.RunFacts
import org.apache.spark.status.KVUtils.KVIndexParam
import org.apache.spark.util.Utils
import org.apache.spark.util.kvstore.{KVIndex, KVStore}

import io.cleancut.format.Proof
import io.cleancut.format.cut.ShareCosts
import io.cleancut.history.{EpochPhase, EpochRecord, EpochRecordJson, SlowReason, StorePrices}

/** The last run of a query, as stored in Spark's store for UI pages. */
private[ui] class RunEntry(@KVIndexParam val location: String, val run: String) {
  @JsonIgnore def facts: Option[RunFacts] = RunFacts.read(run)
}

/**
 * An epoch in the same store. The values for pages with many epochs are fields, so that these pages
 * do not have to parse records. The record has some hundred bytes.
 *
 * @param durationMs
 *   time until the cut was assembled; -1 if it is unknown
 * @param tookMs
 *   time until the epoch was committed; -1 if it is unknown
 * @param phases
 *   milliseconds in the order of `EpochPhase.All`
 * @param alignmentMs
 *   -1 without channels
 * @param dollars
 *   cost of its requests, if they are billed
 * @param slowKind
 *   empty if the epoch was not slow
 * @param growth
 *   growth of in-flight rows in words; empty if they do not grow
 * @param storedBytes
 *   0 if unknown, which includes entries of earlier releases
 * @param provenEpoch
 *   epoch of the last cut that passed a restore test
 * @param provenMs
 *   0 if there is none
 */
private[ui] class EpochEntry(
    val location: String,
    val epoch: Long,
    val generation: Long,
    val writtenMs: Long,
    val durationMs: Long,
    val tookMs: Long,
    val phases: Array[Long],
    val gateMs: Long,
    val cutMs: Long,
    val alignmentMs: Long,
    val rowsInFlight: Long,
    val requests: Long,
    val dollars: Double,
    val bytesSent: Long,
    val rows: Long,
    val stores: Int,
    val typicalMs: Long,
    val slowKind: String,
    val slowDetail: String,
    val growth: String,
    val storedBytes: Long,
    val provenEpoch: Long,
    val provenMs: Long,
    val packed: Array[Byte]
) {
  @JsonIgnore @KVIndex
  def key: String = s"$location\n${"%020d".format(epoch)}"

  @JsonIgnore @KVIndex("location")
  def ofLocation: String = location

  @JsonIgnore @KVIndex("writtenMs")
  def written: Long = writtenMs

  @JsonIgnore def slow: Option[SlowReason] =
    Option.when(slowKind.nonEmpty)(SlowReason(typicalMs, slowKind, slowDetail))

  @JsonIgnore def commitMs: Long = phases(EpochPhase.All.indexOf(EpochPhase.Commit))

  @JsonIgnore def cutLagMs: Long = gateMs + cutMs

  /** For example "map side 98%". */
  @JsonIgnore def longestPhase: Option[String] = {
    val (phase, ms) = EpochPhase.All.zip(phases).maxBy(_._2)
    Option.when(tookMs > 0 && ms > 0)(s"${phase.name} ${Math.min(100L, 100 * ms / tookMs)}%")
  }

  @JsonIgnore def proven: Option[Proof] = Option.when(provenMs > 0)(Proof(provenEpoch, provenMs))

  @JsonIgnore def record: Either[String, EpochRecord] =
    EpochRecordJson.read(EpochEntry.unpack(packed))
}

private[ui] object EpochEntry {

  def of(location: String, record: EpochRecord, json: String): EpochEntry =
    of(location, record, record.costs.map(_.all), json)

  private def of(
      location: String,
      record: EpochRecord,
      costs: Option[ShareCosts],
      json: String
  ): EpochEntry = new EpochEntry(
    location,
    record.epoch,
    record.run.generation,
    record.writtenMs,
    record.durationMs.getOrElse(-1L),
    record.tookMs.getOrElse(-1L),
    EpochPhase.All.map(record.phaseMs).toArray,
    record.gateMs,
    record.cutMs,
    record.alignmentMs.getOrElse(-1L),
    record.rowsInFlight,
    costs.fold(0L)(_.total.requests),
    costs.fold(0.0)(StorePrices.of),
    costs.fold(0L)(_.bytesSent),
    record.rows,
    record.stores,
    record.slow.fold(0L)(_.typicalMs),
    record.slow.fold("")(_.kind),
    record.slow.fold("")(_.detail),
    record.growth.fold("")(_.description),
    record.storedBytes.getOrElse(0L),
    record.proven.fold(0L)(_.epoch),
    record.proven.fold(0L)(_.provenMs),
    pack(json)
  )

  private def pack(text: String): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    Using.resource(new DeflaterOutputStream(bytes))(_.write(text.getBytes(UTF_8)))
    bytes.toByteArray
  }

  private def unpack(bytes: Array[Byte]): String =
    Using.resource(new InflaterInputStream(new ByteArrayInputStream(bytes))) { in =>
      new String(in.readAllBytes(), UTF_8)
    }
}

/** The queries of the pages. */
final private[ui] class CutsStore(store: KVStore) {

  def isEmpty: Boolean = store.count(classOf[RunEntry]) == 0L

  def runs: Seq[RunEntry] = Utils.tryWithResource(
    store.view(classOf[RunEntry]).closeableIterator()
  )(_.asScala.toVector)

  def run(location: String): Option[RunEntry] = runs.find(_.location == location)

  /** The epochs of a query, ascending. */
  def epochs(location: String): Vector[EpochEntry] = {
    val view = store.view(classOf[EpochEntry]).index("location").first(location).last(location)
    Utils.tryWithResource(view.closeableIterator())(_.asScala.toVector).sortBy(_.epoch)
  }
}
