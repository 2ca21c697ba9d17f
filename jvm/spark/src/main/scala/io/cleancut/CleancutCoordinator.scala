package io.cleancut

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.start.{
  ParkedStart,
  SnapshotPrefetch,
  Standby
}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.RunningQueries

import io.cleancut.coordinator.Pace
import io.cleancut.coordinator.state.CommittedEpoch
import io.cleancut.error.Errors
import io.cleancut.format.cut.{ChannelJson, CostsJson}
import io.cleancut.history.SlowTally

/**
 * Access to the coordinators of this driver's queries for callers outside of the JVM. Locations and
 * results are strings. `location` is the checkpoint location as Spark resolved it. `session` is the
 * session of the query; its settings are used to access the store if no run is active.
 */
object CleancutCoordinator {
  private val mapper = new ObjectMapper

  /**
   * The information that is required to access a running query, as a JSON object: `location`, and
   * `conf` with the given keys that are set in its session.
   *
   * @param session
   *   session of the query
   * @param keys
   *   comma-separated keys
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING if no query runs in this session
   */
  def query(session: SparkSession, keys: String): String = {
    val location = RunningQueries
      .locationOf(session)
      .getOrElse(throw Errors.coordinatorMissing("of a query that does not run"))
    val node = mapper.createObjectNode().put("location", location)
    val conf = node.putObject("conf")
    for (key <- keys.split(","); value <- session.conf.getOption(key)) conf.put(key, value)
    mapper.writeValueAsString(node)
  }

  /**
   * The status of a query, as a JSON object. For a query that has ended, the information comes from
   * the store.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING
   */
  def status(location: String, session: SparkSession): String = {
    val status = DriverCuts.status(location, session)
    val node = mapper.createObjectNode().put("location", status.location)
    status.run.foreach { run =>
      node.put("runId", run.runId).put("generation", run.generation)
    }
    DriverCuts.parked.find(location).foreach { run =>
      node.put("parkedSinceMs", run.sinceMs).put("isStandby", run.isStandby)
    }
    status.committed.foreach(node.put("committed", _))
    status.epoch.foreach { epoch =>
      val open = node.putObject("epoch").put("epoch", epoch.epoch)
      open.put("attempts", epoch.attempts).put("complete", epoch.complete)
      open.put("failed", epoch.failed).put("stores", epoch.stores).put("reported", epoch.reported)
    }
    CostsJson.write(status.slowest, node.putArray("slowest"))
    CostsJson.write(status.usage.driver.toShare, node.putObject("driver"))
    CostsJson.write(status.usage.executors.toShare, node.putObject("executors"))
    node.put("executorCount", status.usage.executorCount)
    status.last.foreach(write(_, node.putObject("last")))
    write(status.slow, node.putObject("slow"))
    val inFlight = node.putArray("inFlight")
    status.channels.filter(_.deferred.rows > 0).foreach { report =>
      val channel = inFlight.addObject().put("operator", report.channel.operator)
      channel.put("partition", report.channel.partition).put("channel", report.channel.name)
      channel.put("rows", report.deferred.rows).put("of", report.input.rows)
      status.courses
        .get(report.channel)
        .foreach(course => channel.put("bytes", course.bytesInFlight))
    }
    val savepoints = node.putArray("unreadableSavepoints")
    status.unreadableSavepoints.foreach { invalid =>
      val savepoint = savepoints.addObject().put("name", invalid.name).put("detail", invalid.detail)
      invalid.lastEpoch.foreach(savepoint.put("lastEpoch", _))
    }
    def put(name: String, reasons: Map[Long, String]): Unit = {
      val written = node.putObject(name)
      reasons.foreach { case (operator, reason) => written.put(operator.toString, reason) }
    }
    status.unpipelined.foreach(node.put("unpipelined", _))
    put("aligned", status.reasons.aligned)
    put("pysparkLoop", status.reasons.pysparkLoop)
    put("overloaded", status.overloaded)
    mapper.writeValueAsString(node)
  }

  /**
   * The restore tests and replicas of the query, as a JSON object: `proofs` has the names of
   * restore tests, `replicas` a text for each replica. It requires a request to the store.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING, or errors of the store
   */
  def notes(location: String, session: SparkSession): String = {
    val notes = DriverCuts.within(location, session)(_.notes())
    val node = mapper.createObjectNode()
    val proofs = node.putArray("proofs")
    notes.proofs.foreach(proofs.add(_))
    val replicas = node.putArray("replicas")
    notes.replicas.foreach(replicas.add(_))
    mapper.writeValueAsString(node)
  }

  /**
   * Retains the cut of an epoch and everything that it requires under a name, until [[unpin]].
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING, CLEANCUT_SAVEPOINT_INVALID
   */
  def pin(location: String, session: SparkSession, name: String, epoch: Long): Unit =
    DriverCuts.within(location, session)(_.pin(name, epoch))

  /**
   * Cuts the running epoch immediately; see [[QueryCoordinator.cutNow]].
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING
   */
  def cutNow(location: String, session: SparkSession): Boolean =
    DriverCuts.within(location, session)(_.cutNow())

  /**
   * Prevents the next epoch from starting, so that the query can be stopped after the running one.
   */
  def hold(location: String): Unit = DriverCuts.starts(location).hold()

  /** Allows epochs of a held query to start again. */
  def release(location: String): Unit = DriverCuts.starts(location).release()

  /**
   * Parks the next run at a location: it waits before it takes ownership, so that another driver
   * continues to run the query until [[unpark]].
   *
   * @return
   *   the location as Spark resolves it
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_REFUSED
   */
  def park(location: String, session: SparkSession): String = ParkedStart.park(session, location)

  /** Whether a parked run waits. Its plan is analyzed, and the next step is the first read. */
  def isWaiting(location: String): Boolean = DriverCuts.parked.find(location).isDefined

  /**
   * Fetches the snapshots of a query that another driver runs to the executors of this one, as far
   * as they are not there.
   *
   * @return
   *   number of stores whose snapshots are there
   */
  def prefetch(location: String, session: SparkSession): Int =
    SnapshotPrefetch.run(session, location)

  /**
   * Begins to watch the driver that runs a query. The result is for one thread, which closes it.
   *
   * @param silenceMs
   *   time without a new cut after which the driver counts as dead; 0 for no limit
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING if the checkpoint has no cuts
   */
  def standby(location: String, session: SparkSession, silenceMs: Long): Standby =
    new Standby(session, location, silenceMs)

  /** Lets a parked run take ownership, or the next run start as usual. */
  def unpark(location: String): Unit = DriverCuts.parked.release(location)

  /**
   * Changes the pace of a query's epochs and returns it as a JSON object.
   *
   * @param minPauseMs
   *   -1 for no change; this also applies to the next parameters
   * @param microDollars
   *   budget per day, in millionths of a dollar; 0 for no budget
   * @param tolerableFailures
   *   -1 for no change, -2 for unlimited
   * @param autopause
   *   0 or 1
   */
  def pace(
      location: String,
      minPauseMs: Long,
      intervalMs: Long,
      microDollars: Long,
      tolerableFailures: Long,
      autopause: Long
  ): String = {
    val settings = DriverCuts.pace(location)
    val now = settings.pace
    val requested = Pace(
      if (minPauseMs < 0) now.minPauseMs else minPauseMs,
      if (intervalMs < 0) now.intervalMs else intervalMs,
      if (microDollars < 0) now.dollarsPerDay
      else Option.when(microDollars > 0)(microDollars / 1e6),
      if (tolerableFailures == -1) now.tolerableFailures
      else Option.when(tolerableFailures >= 0)(tolerableFailures.toInt),
      if (autopause < 0) now.autopause else autopause > 0
    )
    if (requested != now) settings.set(requested)
    val node = mapper.createObjectNode()
    node.put("minPauseMs", requested.minPauseMs).put("intervalMs", requested.intervalMs)
    requested.dollarsPerDay.foreach(node.put("dollarsPerDay", _))
    node.put("boughtMs", settings.budgetIntervalMs)
    requested.tolerableFailures.foreach(node.put("tolerableFailures", _))
    node.put("autopause", requested.autopause)
    val maintenance = DriverCuts.maintenance(location).status
    val failing = node.put("putOff", maintenance.putOff).putObject("failing")
    maintenance.inRow.foreach { case (task, failures) =>
      failing.putObject(task).put("count", failures.count).put("last", failures.last)
    }
    mapper.writeValueAsString(node)
  }

  /** Whether a query is between two epochs; true if it does not run here. */
  def isBetween(location: String): Boolean = DriverCuts.isBetween(location)

  /**
   * Deletes a savepoint.
   *
   * @return
   *   whether it existed
   */
  def unpin(location: String, session: SparkSession, name: String): Boolean =
    DriverCuts.within(location, session)(_.unpin(name))

  private def write(slow: SlowTally, node: ObjectNode): Unit = {
    val counts = node.putObject("counts")
    slow.counts.toSeq.sorted.foreach { case (kind, count) => counts.put(kind, count) }
    slow.last.foreach { case SlowTally.Last(epoch, reason) =>
      val last = node.putObject("last").put("epoch", epoch).put("kind", reason.kind)
      last.put("typicalMs", reason.typicalMs).put("detail", reason.detail)
    }
  }

  /** Writes the values of the cut, and the duration of the cut write. */
  private def write(last: CommittedEpoch, node: ObjectNode): Unit = {
    val cut = last.cut
    node.put("epoch", cut.epoch).put("generation", cut.run.generation)
    node.put("writtenMs", cut.writtenMs).put("stores", cut.stores.size)
    val timings = node.putObject("timings")
    cut.timings.foreach { case (phase, ms) => timings.put(phase, ms) }
    cut.costs.foreach(CostsJson.write(_, node.putObject("costs")))
    val channels = node.putArray("channels")
    cut.channels.foreach { channel =>
      ChannelJson.write(channel, cut.courses.get(channel.channel), channels.addObject())
    }
    node.put("cutMs", last.writeMs)
    ()
  }
}
