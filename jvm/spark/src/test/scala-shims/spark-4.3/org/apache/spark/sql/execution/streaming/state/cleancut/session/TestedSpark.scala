package org.apache.spark.sql.execution.streaming.state.cleancut.session

import org.apache.spark.sql.{classic, Dataset, Encoder}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.streaming.{HasStreamingSourceIdentifyingName, UserProvided}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.RestartableScan

/** What tests ask of Spark 4.3 otherwise than of 4.2. */
object TestedSpark {
  val TaskCpus: BigDecimal = BigDecimal(1)

  /** State formats of joins. */
  val JoinFormats: Seq[Int] = Seq(2, 3, 4)

  /** The last that Spark's reader of state knows: the second has ids of versions. */
  val ReadableCheckpointFormat: Int = 2

  /** Whether Spark's reader of state asks the offset log how many partitions there are. */
  val ReaderKnowsPartitions: Boolean = true

  /** Whether acts write state for a provider of Spark's own. */
  val ActsWriteForSpark: Boolean = true

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
    val found = store.asInstanceOf[SupportsReusableIterator].reusableIterator(family)
    Some(new RestartableScan {
      override def restartFrom(prefix: UnsafeRow): Unit = found.refreshAndSeekToPrefix(prefix)
      override def hasNext: Boolean = found.hasNext
      override def next(): UnsafeRowPair = found.next()
      override def close(): Unit = found.close()
    })
  }
}
