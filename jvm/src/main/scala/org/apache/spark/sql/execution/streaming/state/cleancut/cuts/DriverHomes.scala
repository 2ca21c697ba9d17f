package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.util.UUID

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorRemoved}
import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCoordinatorRef,
  StateStoreId,
  StateStoreProviderId
}

import io.cleancut.{Recent, StoreId}
import io.cleancut.cuts.{BaseHomes, Place, QueryCuts}

/**
 * What the driver knows of where the bases of its queries lie, by checkpoint location. It outlives
 * a run, as the disks of executors do: Spark itself forgets with each run where stores have been.
 */
private[cuts] object DriverHomes extends Logging {
  private val MaxLocations = 64
  private val byLocation = new Recent[String, BaseHomes](MaxLocations)

  def opened(location: String, store: StoreId, at: Place): Unit = of(location)(_.opened(store, at))

  /** The bases that an executor is to have on its disk. */
  def asked(question: AskBases, cuts: QueryCuts): CutsReply = {
    import question._
    val cut = cuts.lastCut
    val wanted = of(location) { homes =>
      homes.follows(at)
      cut.filter(_ => homes.mayWant(replicas)).toSeq.flatMap { known =>
        known.stores.filter(one => homes.isWanted(one.store, at.executor, replicas))
      }
    }
    val reply = BasesReply(wanted.flatMap(_.base))
    if (reply.mark == known) Noted else reply
  }

  /** A run begins, whose tasks had better go where the last one's have been. */
  def begins(location: String, runId: String): Unit =
    tell(location, runId, of(location)(_.begins()))

  /** An application has begun in this process: its executors' ids are given again. */
  def restart(): Unit = {
    synchronized(byLocation.clear())
    SparkContext.getActive.foreach(_.addSparkListener(Removals))
  }

  private def of[A](location: String)(act: BaseHomes => A): A =
    synchronized(act(byLocation.computeIfAbsent(location, _ => new BaseHomes)))

  private def left(executor: String): Unit = {
    val moved = synchronized {
      val all = new scala.collection.mutable.ArrayBuffer[(String, Map[StoreId, Place])]
      byLocation.forEach((location, homes) => all += location -> homes.left(executor))
      all.toVector
    }
    for ((location, homes) <- moved; runId <- DriverCuts.runAt(location))
      tell(location, runId, homes)
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

  private object Removals extends SparkListener {
    override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit =
      left(event.executorId)
  }
}
