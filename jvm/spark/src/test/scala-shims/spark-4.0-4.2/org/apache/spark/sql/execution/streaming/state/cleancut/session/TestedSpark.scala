package org.apache.spark.sql.execution.streaming.state.cleancut.session

import scala.annotation.unused

import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.BuiltFor
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}
import org.apache.spark.sql.{Dataset, Encoder}
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.RestartableScan

/** Differences of Spark 4.2 and earlier lines from 4.3, for tests. */
object TestedSpark {
  val TaskCpus: Int = 1

  /** State formats of joins. The fourth is "under development" in 4.2, on any provider. */
  val JoinFormats: Seq[Int] = if (BuiltFor.Spark == "4.0") Seq(2) else Seq(2, 3)

  /** The last one that Spark's state reader supports. The second one has IDs of versions. */
  val ReadableCheckpointFormat: Int = if (BuiltFor.Spark == "4.0") 1 else 2

  /** Whether Spark's state reader takes the number of partitions from the offset log. */
  val ReaderKnowsPartitions: Boolean = BuiltFor.Spark == "4.2"

  /** Whether operations write state for one of Spark's own providers. */
  val OperationsWriteForSpark: Boolean = BuiltFor.Spark == "4.2"

  /** Whether `dropDuplicates` normalizes floating-point numbers of its keys. */
  val NormalizesDuplicates: Boolean = BuiltFor.Spark == "4.2"

  /** Whether tests can name a source. */
  val NamesSources: Boolean = false

  /** Rows of sources that have a name. */
  def named[T](rows: Dataset[T], name: String)(implicit encoder: Encoder[T]): Dataset[T] =
    throw new UnsupportedOperationException(s"no name $name for a source of ${encoder.schema}")

  def maintain(provider: StateStoreProvider): Unit = provider.doMaintenance()

  /** Stores of this line have no reusable iterator. */
  def reusableIterator(@unused store: StateStore, @unused family: String): Option[RestartableScan] =
    None
}
