package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.{classic, Dataset, Encoder}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.streaming.{HasStreamingSourceIdentifyingName, UserProvided}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.RestartableScan

/** Differences of Spark 4.3 from 4.2, for tests. */
object TestedSpark {
  val TaskCpus: BigDecimal = BigDecimal(1)

  /** State formats of joins. */
  val JoinFormats: Seq[Int] = Seq(2, 3, 4)

  /** The last one that Spark's state reader supports. The second one has IDs of versions. */
  val ReadableCheckpointFormat: Int = 2

  /** Whether Spark's state reader takes the number of partitions from the offset log. */
  val ReaderKnowsPartitions: Boolean = true

  /** Whether operations write state for one of Spark's own providers. */
  val OperationsWriteForSpark: Boolean = true

  /** Whether `dropDuplicates` normalizes floating-point numbers of its keys. */
  val NormalizesDuplicates: Boolean = true

  /** Whether tests can name a source. */
  val NamesSources: Boolean = true

  /** Rows of sources that have a name. */
  def named[T](rows: Dataset[T], name: String)(implicit encoder: Encoder[T]): Dataset[T] = {
    val query: classic.Dataset[T] = rows
    val plan = query.logicalPlan.transform { case source: HasStreamingSourceIdentifyingName =>
      source.withSourceIdentifyingName(UserProvided(name))
    }
    classic.Dataset(query.sparkSession, plan)
  }

  def maintain(provider: StateStoreProvider): Unit = {
    provider.doSnapshotMaintenance()
    provider.doCleanupMaintenance()
  }

  def reusableIterator(store: StateStore, family: String): Option[RestartableScan] = {
    val reusable = store.asInstanceOf[SupportsReusableIterator].reusableIterator(family)
    Some(new RestartableScan {
      override def restartFrom(prefix: UnsafeRow): Unit = reusable.refreshAndSeekToPrefix(prefix)
      override def hasNext: Boolean = reusable.hasNext
      override def next(): UnsafeRowPair = reusable.next()
      override def close(): Unit = reusable.close()
    })
  }
}
