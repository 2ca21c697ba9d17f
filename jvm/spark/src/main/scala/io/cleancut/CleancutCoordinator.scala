package io.cleancut

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.RunningQueries

import io.cleancut.coordinator.Pace
import io.cleancut.coordinator.state.CommittedEpoch
import io.cleancut.error.Errors
import io.cleancut.format.cut.{ChannelJson, CostsJson}
import io.cleancut.history.SlowTally

/**
 * The coordinators of this driver's queries, for callers outside of the JVM: locations are text,
 * and so is what comes back. `location` is the checkpoint location as Spark resolved it, and
 * `session` that of the query, by whose settings the store is asked where no run goes on.
 */
object CleancutCoordinator {
  private val mapper = new ObjectMapper

  /**
   * What one has to know of a query that runs to ask for it, as a JSON object: `location`, and
   * `conf` with those of the keys that its session sets.
   *
   * @param session
   *   that of the query
   * @param keys
   *   with commas between them
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING, none runs in this session
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
   * Where a query stands, as a JSON object. Of one that has ended it tells what the store does.
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
    status.unreadableSavepoints.foreach { of =>
      val savepoint = savepoints.addObject().put("name", of.name).put("detail", of.detail)
      of.lastEpoch.foreach(savepoint.put("lastEpoch", _))
    }
    val aligned = node.putObject("aligned")
    status.aligned.foreach { case (operator, why) => aligned.put(operator.toString, why) }
    val overloaded = node.putObject("overloaded")
    status.overloaded.foreach { case (operator, why) => overloaded.put(operator.toString, why) }
    mapper.writeValueAsString(node)
  }

  /**
   * What others have noted who looked at the query, as a JSON object: `proofs` has the names of
   * proofs, `replicas` a text for each copy that is kept up. It asks the store.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING, or that the store cannot be asked
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
   * Keeps the cut of an epoch, and all that it needs, under a name until [[unpin]].
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING, CLEANCUT_SAVEPOINT_INVALID
   */
  def pin(location: String, session: SparkSession, name: String, epoch: Long): Unit =
    DriverCuts.within(location, session)(_.pin(name, epoch))

  /**
   * Cuts the epoch that runs, whoever holds it up; see [[QueryCoordinator.cutNow]].
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING
   */
  def cutNow(location: String, session: SparkSession): Boolean =
    DriverCuts.within(location, session)(_.cutNow())

  /** Holds the next epoch back, so that the query can be stopped when the one that runs is over. */
  def hold(location: String): Unit = DriverCuts.starts(location).hold()

  /** Has a query go on that is held back. */
  def release(location: String): Unit = DriverCuts.starts(location).release()

  /**
   * How fast the epochs of a query may follow each other, as a JSON object, after it was set.
   *
   * @param minPauseMs
   *   -1 for as it is; so for the others
   * @param microDollars
   *   a day, in millionths of a dollar; 0 is no budget
   * @param tolerableFailures
   *   -2 is however many
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
    val of = DriverCuts.pace(location)
    val now = of.pace
    val asked = Pace(
      if (minPauseMs < 0) now.minPauseMs else minPauseMs,
      if (intervalMs < 0) now.intervalMs else intervalMs,
      if (microDollars < 0) now.dollarsPerDay
      else Option.when(microDollars > 0)(microDollars / 1e6),
      if (tolerableFailures == -1) now.tolerableFailures
      else Option.when(tolerableFailures >= 0)(tolerableFailures.toInt),
      if (autopause < 0) now.autopause else autopause > 0
    )
    if (asked != now) of.set(asked)
    val node = mapper.createObjectNode()
    node.put("minPauseMs", asked.minPauseMs).put("intervalMs", asked.intervalMs)
    asked.dollarsPerDay.foreach(node.put("dollarsPerDay", _))
    node.put("boughtMs", of.budgetIntervalMs)
    asked.tolerableFailures.foreach(node.put("tolerableFailures", _))
    node.put("autopause", asked.autopause)
    val beside = DriverCuts.maintenance(location).status
    val failing = node.put("putOff", beside.putOff).putObject("failing")
    beside.inRow.foreach { case (what, failures) =>
      failing.putObject(what).put("count", failures.count).put("last", failures.last)
    }
    mapper.writeValueAsString(node)
  }

  /** Whether a query is between two epochs; one that does not run here is. */
  def isBetween(location: String): Boolean = DriverCuts.isBetween(location)

  /** Whether there was a savepoint of this name. */
  def unpin(location: String, session: SparkSession, name: String): Boolean =
    DriverCuts.within(location, session)(_.unpin(name))

  private def write(slow: SlowTally, node: ObjectNode): Unit = {
    val counts = node.putObject("counts")
    slow.counts.toSeq.sorted.foreach { case (kind, count) => counts.put(kind, count) }
    slow.last.foreach { case SlowTally.Last(epoch, why) =>
      val last = node.putObject("last").put("epoch", epoch).put("kind", why.kind)
      last.put("typicalMs", why.typicalMs).put("detail", why.detail)
    }
  }

  /** As the cut tells it, with what the write of the cut took. */
  private def write(last: CommittedEpoch, node: ObjectNode): Unit = {
    val cut = last.cut
    node.put("epoch", cut.epoch).put("generation", cut.run.generation)
    node.put("writtenMs", cut.writtenMs).put("stores", cut.stores.size)
    val timings = node.putObject("timings")
    cut.timings.foreach { case (phase, ms) => timings.put(phase, ms) }
    cut.costs.foreach(CostsJson.write(_, node.putObject("costs")))
    val channels = node.putArray("channels")
    cut.channels.foreach { of =>
      ChannelJson.write(of, cut.courses.get(of.channel), channels.addObject())
    }
    node.put("cutMs", last.writeMs)
    ()
  }
}
