package io.cleancut

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.execution.streaming.state.cleancut.DriverCuts

import io.cleancut.cuts.QueryCuts
import io.cleancut.error.Errors

/**
 * The coordinators of this driver's queries, for callers outside of the JVM: locations are text,
 * and so is what comes back. `location` is the checkpoint location as Spark resolved it.
 */
object CleancutCoordinator {
  private val mapper = new ObjectMapper

  /**
   * Where a query stands, as a JSON object.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING
   */
  def status(location: String): String = {
    val status = of(location).status
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
    val requests = node.putObject("requests")
    status.counts.byKind.foreach { case (kind, counts) =>
      if (counts.requests > 0) {
        val of = requests.putObject(kind.name).put("requests", counts.requests)
        of.put("retries", counts.retries).put("failures", counts.failures)
      }
    }
    node.put("bytesSent", status.counts.bytesSent)
    node.put("bytesReceived", status.counts.bytesReceived)
    mapper.writeValueAsString(node)
  }

  /**
   * Keeps the cut of an epoch, and all that it needs, under a name until [[unpin]].
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_COORDINATOR_MISSING, CLEANCUT_SAVEPOINT_INVALID
   */
  def pin(location: String, name: String, epoch: Long): Unit = of(location).pin(name, epoch)

  /** Whether there was a savepoint of this name. */
  def unpin(location: String, name: String): Boolean = of(location).unpin(name)

  private def of(location: String): QueryCuts =
    DriverCuts.of(location).getOrElse(throw Errors.coordinatorMissing(location))
}
