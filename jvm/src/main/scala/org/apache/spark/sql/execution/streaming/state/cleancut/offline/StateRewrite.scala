package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.{StateStoreCheckpointInfo, StateStoreConf}
import org.apache.spark.util.SerializableConfiguration

import io.cleancut.error.Errors

/** One side of a rewrite: whose stores, of what provider. */
final private[offline] case class StoresAt(stateRoot: String, conf: StateStoreConf)

/**
 * Makes a version of every store of a query of what is in its stores as they are, on Spark's
 * executors, one task for each partition of an operator. A row is in memory as long as it takes to
 * put it; what has been written is then read again, and compared.
 *
 * @param from
 *   where the stores are read, at the version after `query.epoch`
 * @param to
 *   where version `query.epoch + 2` is made
 */
final private[offline] class StateRewrite(
    session: SparkSession,
    query: StoredQuery,
    from: StoresAt,
    to: StoresAt
) {
  import StateRewrite._

  /** What was written of each store. */
  def run(): Seq[Rewritten] = {
    val context = session.sparkContext
    val tasks = for {
      operator <- query.operators
      partition <- operator.partitions
    } yield Task(
      operator,
      partition,
      operator.stores.indices.map(query.uniqueId(operator.id, partition, _))
    )
    val conf =
      SerializableConfiguration.broadcast(context, session.sessionState.newHadoopConf())
    val version = query.epoch + 1
    // Neither this nor the query is to travel to the executors.
    val (source, target, runId) = (from, to, UUID.randomUUID())
    try
      context
        .parallelize(tasks, Math.max(tasks.size, 1))
        .flatMap { task =>
          task.operator.stores.indices
            .map(rewrite(task, _, version, source, target, runId, conf.value.value))
        }
        .collect()
        .toSeq
    finally conf.destroy()
  }
}

/**
 * @param info
 *   names the version, where the checkpoint has ids of versions
 */
final private[offline] case class Rewritten(
    operator: Long,
    partition: Int,
    store: Int,
    rows: Long,
    info: StateStoreCheckpointInfo
)

private[offline] object StateRewrite {
  final private case class Task(operator: StoredOperator, partition: Int, ids: Seq[Option[String]])

  private def rewrite(
      task: Task,
      index: Int,
      version: Long,
      from: StoresAt,
      to: StoresAt,
      runId: UUID,
      hadoopConf: Configuration
  ): Rewritten = {
    val store = task.operator.stores(index)
    def open(at: StoresAt) = new OfflineProvider(
      at.stateRoot,
      task.operator,
      store,
      task.partition,
      runId,
      at.conf,
      new Configuration(hadoopConf)
    )
    var read = RowsOfStore(0L, 0L)
    val source = open(from)
    val info =
      try {
        val target = open(to)
        try
          target.write(version) { out =>
            source.read(version, task.ids(index)) { (family, rows) =>
              read += StoreRewrite.copy(family, rows, out)
            }
          }
        finally target.close()
      } finally source.close()
    val written = sumOf(open(to), version + 1, info.stateStoreCkptId)
    if (written != read) {
      throw Errors.rewriteDiffers(
        to.stateRoot,
        task.operator.id,
        task.partition,
        store.name,
        read.rows,
        written.rows
      )
    }
    Rewritten(task.operator.id, task.partition, index, read.rows, info)
  }

  private def sumOf(provider: OfflineProvider, version: Long, id: Option[String]): RowsOfStore =
    try {
      var sum = RowsOfStore(0L, 0L)
      provider.read(version, id)((family, rows) => sum += StoreRewrite.sum(family, rows))
      sum
    } finally provider.close()
}
