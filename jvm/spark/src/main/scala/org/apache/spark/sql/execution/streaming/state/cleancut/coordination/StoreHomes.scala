package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.UUID

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorRemoved}
import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCoordinatorRef,
  StateStoreId,
  StateStoreProviderId
}

import io.cleancut.base.StoreId
import io.cleancut.coordinator.QueryCoordinator
import io.cleancut.cutstore.usage.Place
import io.cleancut.format.StoreCut
import io.cleancut.format.cut.Cut

/**
 * Reports to Spark and its executors where the stores of queries are, or should be. The driver's
 * knowledge outlives a run, as the disks of executors do, while Spark forgets the locations of
 * stores with each run.
 */
private[cleancut] object StoreHomes extends Logging {

  def opened(location: String, stores: Iterable[StoreId], at: Place): Unit =
    DriverCuts.queries.find(location).foreach { query =>
      query.homes(homes => stores.foreach(homes.opened(_, at)))
    }

  /** An executor has the bases of these stores, which the next run opens there. */
  def prefetched(location: String, stores: Seq[StoreId], at: Place): Unit =
    DriverCuts.queries.query(location).homes { homes =>
      homes.follows(at)
      stores.foreach(homes.opened(_, at))
    }

  /** Where the bases of a query's stores are. */
  def of(location: String): Map[StoreId, Place] =
    DriverCuts.queries.find(location).fold(Map.empty[StoreId, Place])(_.homes(_.placements.homes))

  /** The bases that an executor should have on its disk. */
  def basesFor(question: AskBases, cuts: QueryCoordinator): CutsReply = {
    import question._
    val stores =
      DriverCuts.queries.find(location).fold(Set.empty[StoreId])(_.storesFor(at, replicas))
    val wanted = if (stores.isEmpty) Nil else cuts.lastCut.toSeq.flatMap(chainsIn(_, stores))
    val reply = BasesReply(wanted.flatMap(_.base))
    if (reply.mark == known) Noted else reply
  }

  /** In an order independent of the set, because the reply has a hash of it. */
  private def chainsIn(cut: Cut, stores: Set[StoreId]): Seq[StoreCut] =
    stores.toSeq.sortBy(store => (store.operator, store.partition, store.name)).flatMap(cut.of)

  /** A run begins; its tasks should run where those of the last run did. */
  def startRun(location: String, runId: String): Unit =
    for (query <- DriverCuts.queries.find(location))
      report(location, runId, query.homes(_.startRun()))

  private def left(executor: String): Unit = DriverCuts.queries.all.foreach { query =>
    val moved = query.homes(_.left(executor))
    query.runId.foreach(report(query.location, _, moved))
  }

  /** Spark's scheduler sends tasks to the reported locations of their stores. */
  private def report(location: String, runId: String, homes: Map[StoreId, Place]): Unit =
    if (homes.nonEmpty) {
      try {
        val coordinator = StateStoreCoordinatorRef.forExecutor(SparkEnv.get)
        val root = new Path(location, "state").toString
        val run = UUID.fromString(runId)
        homes.foreach { case (store, at) =>
          val id = StateStoreId(root, store.operator, store.partition, store.name)
          coordinator
            .reportActiveInstance(StateStoreProviderId(id, run), at.host, at.executor, Nil)
        }
        logInfo(s"${homes.size} stores of $location are scheduled where their snapshots are")
      } catch {
        case NonFatal(e) => logInfo(s"Tasks of $location are scheduled without location: $e")
      }
    }

  object Removals extends SparkListener {
    override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit =
      left(event.executorId)
  }
}
