package io.cleancut.coordinator.state

import scala.util.Try

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.cutstore.Notes
import io.cleancut.format.{PackedChain, StoreCut}
import io.cleancut.format.cut.ChannelCourse
import io.cleancut.objectstore.{KindCounts, RequestKind}

/**
 * The values of a query's metrics at one moment. Pure.
 *
 * @param begun
 *   the last committed epoch when counting began
 * @param notes
 *   markers of restore tests and replicas; None if they have not been read yet
 */
final class QueryFigures(
    private val status: CutsStatus,
    private val begun: Long,
    notes: Option[Notes]
) {
  import QueryFigures._

  private val committed = status.committed.map(_.toDouble)
  private val last = status.last
  private val usage = status.usage.driver + status.usage.executors
  private val courses = status.courses.values.toSeq
  private lazy val chains = last.toSeq.flatMap(_.cut.stores).map(new ChainFigures(_))
  private lazy val copies = notes.toSeq.flatMap(_.replicas).flatMap(Copy.parse)

  /** The value of a gauge; None if it is not known. */
  def gauge(name: String): Option[Double] = gauges(name)(this)

  /** The value of a counter. */
  def count(name: String): Long = counters(name)(this)

  /** Number of epochs of this run that were slow for one cause. */
  def slow(cause: String): Long = status.slow.counts.getOrElse(cause, 0L)

  /** Requests of one kind. */
  def requests(kind: RequestKind): KindCounts = usage.requests(kind)

  private def timing(phase: String): Option[Double] =
    last.flatMap(_.cut.timings.get(phase)).map(_ / MsPerS)

  private def longest(ms: Iterable[Long]): Option[Double] = ms.maxOption.map(_ / MsPerS)

  private def alignment: Option[Double] =
    longest(ChannelCourse.longestAlignmentMs(status.courses))

  private def unproven: Option[Double] =
    for (_ <- notes; epoch <- committed) yield epoch - proven.fold(-1.0)(_.epoch.toDouble)

  private def proven = notes.flatMap(_.proven)

  private def lagSeconds: Option[Double] = {
    val lags =
      for (copy <- copies; cut <- last.map(_.cut))
        yield if (copy.epoch >= cut.epoch) 0L else Math.max(cut.writtenMs - copy.writtenMs, 0L)
    longest(lags)
  }

  private def lagEpochs: Option[Double] = {
    val lags = for (copy <- copies; epoch <- committed) yield Math.max(epoch - copy.epoch, 0.0)
    lags.maxOption
  }

  private def oldestBase: Option[Double] =
    for (cut <- last.map(_.cut); oldest <- chains.map(_.baseVersion).minOption)
      yield (cut.epoch + 1 - oldest).toDouble
}

object QueryFigures {
  private val MsPerS = 1000.0
  private val mapper = new ObjectMapper

  private type Gauge = QueryFigures => Option[Double]

  private val gauges: Map[String, Gauge] = Map(
    "committed_epoch" -> (_.committed),
    "last_commit_timestamp_seconds" -> (_.last.map(_.cut.writtenMs / MsPerS)),
    "epoch_duration_seconds" -> (_.timing("epochMs")),
    "commit_duration_seconds" -> (_.timing("gateMs")),
    "cut_write_duration_seconds" -> (_.last.map(_.writeMs / MsPerS)),
    "cut_lag_seconds" -> (_.last.flatMap(_.cutLagMs).map(_ / MsPerS)),
    "alignment_duration_seconds" -> (_.alignment),
    "barrier_to_capture_duration_seconds" ->
      (query => query.longest(query.courses.flatMap(_.barrierToCaptureMs))),
    "slowest_store_duration_seconds" ->
      (query => query.longest(query.last.flatMap(_.cut.costs).toSeq.flatMap(_.slowest).map(_.ms))),
    "in_flight_rows" -> (query => Some(query.status.channels.map(_.deferred.rows).sum.toDouble)),
    "in_flight_bytes" -> (query => Some(query.courses.map(_.bytesInFlight).sum.toDouble)),
    "in_flight_over_limit_rows" -> (query =>
      Some(query.courses.map(_.rowsBeyondBound).sum.toDouble)
    ),
    "overloaded_operators" -> (query => Some(query.status.overloaded.size.toDouble)),
    "aligned_operators" -> (query => Some(query.status.reasons.aligned.size.toDouble)),
    "unreadable_savepoints" -> (query => Some(query.status.unreadableSavepoints.size.toDouble)),
    "stores" -> (_.last.map(_.cut.stores.size.toDouble)),
    "executors" -> (query => Some(query.status.usage.executorCount.toDouble)),
    "owner_generation" -> (_.status.run.map(_.generation.toDouble)),
    "restore_test_epoch" -> (_.proven.map(_.epoch.toDouble)),
    "restore_test_timestamp_seconds" -> (_.proven.map(_.provenMs / MsPerS)),
    "epochs_since_restore_test" -> (_.unproven),
    "replica_lag_epochs" -> (_.lagEpochs),
    "replica_lag_seconds" -> (_.lagSeconds),
    "longest_chain_frames" -> (_.chains.map(_.frames.toDouble).maxOption),
    "oldest_snapshot_age_epochs" -> (_.oldestBase),
    "chain_bytes" -> (query => query.last.map(_ => query.chains.map(_.bytes).sum.toDouble))
  )

  private val counters: Map[String, QueryFigures => Long] = Map(
    "epochs_total" -> (query => query.status.committed.fold(0L)(_ - query.begun)),
    "slow_epochs_total" -> (_.status.slow.total),
    "requests_total" -> (_.usage.requests.requests),
    "request_retries_total" -> (_.usage.requests.retries),
    "request_failures_total" -> (_.usage.requests.failures),
    "sent_bytes_total" -> (_.usage.requests.bytesSent),
    "received_bytes_total" -> (_.usage.requests.bytesReceived),
    "frames_total" -> (_.usage.written.frames),
    "segments_total" -> (_.usage.written.segments),
    "segment_bytes_total" -> (_.usage.written.segmentBytes)
  )

  /** The metrics whose values are computed here. */
  val Gauges: Set[String] = gauges.keySet
  val Counters: Set[String] = counters.keySet

  /** Costs of a chain for a restart. */
  final private class ChainFigures(store: StoreCut) {
    private val chain = PackedChain.of(store.frames)

    def frames: Int = chain.length
    def baseVersion: Long = chain.base.getOrElse(0L)
    def bytes: Long = chain.sizeBytes
  }

  /** The position of a replica at its last pass. */
  final private case class Copy(epoch: Long, writtenMs: Long)

  private object Copy {

    /** A marker that cannot be parsed counts as absent. */
    def parse(note: String): Option[Copy] = Try(mapper.readTree(note)).toOption.flatMap { json =>
      def number(field: JsonNode) = Option.when(field.isIntegralNumber)(field.longValue)
      for {
        epoch <- number(json.path("epoch"))
        writtenMs <- number(json.path("writtenMs"))
      } yield Copy(epoch, writtenMs)
    }
  }
}
