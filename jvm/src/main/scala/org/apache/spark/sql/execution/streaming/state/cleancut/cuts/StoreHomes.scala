package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

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

import io.cleancut.StoreId
import io.cleancut.cuts.{Place, QueryCuts}

/**
 * Tells Spark and its executors where the stores of queries are, or had better be. What the driver
 * knows of that outlives a run, as the disks of executors do: Spark itself forgets with each run
 * where stores have been.
 */
private[cuts] object StoreHomes extends Logging {

  def opened(location: String, stores: Iterable[StoreId], at: Place): Unit =
    DriverCuts.queries.find(location).foreach { query =>
      query.homes(homes => stores.foreach(homes.opened(_, at)))
    }

  /** The bases that an executor is to have on its disk. */
  def asked(question: AskBases, cuts: QueryCuts): CutsReply = {
    import question._
    val cut = cuts.lastCut
    val wanted = DriverCuts.queries
      .find(location)
      .toSeq
      .flatMap(_.homes { homes =>
        homes.follows(at)
        if (!homes.mayWant(replicas)) Nil
        else
          cut.toSeq.flatMap(_.stores.filter(of => homes.isWanted(of.store, at.executor, replicas)))
      })
    val reply = BasesReply(wanted.flatMap(_.base))
    if (reply.mark == known) Noted else reply
  }

  /** A run begins, whose tasks had better go where the last one's have been. */
  def begins(location: String, runId: String): Unit =
    for (query <- DriverCuts.queries.find(location)) tell(location, runId, query.homes(_.begins()))

  private def left(executor: String): Unit = DriverCuts.queries.all.foreach { query =>
    val moved = query.homes(_.left(executor))
    query.runId.foreach(tell(query.location, _, moved))
  }

  /** Spark's scheduler sends tasks where it takes their stores to be. */
  private def tell(location: String, runId: String, homes: Map[StoreId, Place]): Unit =
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
        logInfo(s"${homes.size} stores of $location are expected where their bases are")
      } catch {
        case NonFatal(e) => logInfo(s"Tasks of $location go anywhere: $e")
      }
    }

  object Removals extends SparkListener {
    override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit =
      left(event.executorId)
  }
}
