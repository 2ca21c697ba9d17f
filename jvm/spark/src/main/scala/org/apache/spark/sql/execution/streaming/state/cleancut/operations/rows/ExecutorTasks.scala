package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import scala.reflect.ClassTag

import org.apache.spark.SparkContext
import org.apache.spark.rdd.RDD
import org.apache.spark.util.Utils

/**
 * Work on Spark's executors whose values and results are serialized as bytes, by Java. The
 * serializer of the session may be Kryo, which can refuse classes that are not registered.
 */
private[operations] object ExecutorTasks {

  /**
   * One partition for each value. The values are part of the task, and none is sent as a row.
   *
   * @param preferred
   *   the task locations that a value prefers, in Spark's text form
   */
  def each[A: ClassTag](
      context: SparkContext,
      values: Seq[A],
      preferred: A => Seq[String] = (_: A) => Nil
  ): RDD[A] = {
    val all = values.toIndexedSeq
    context.makeRDD(all.indices.map(at => at -> preferred(all(at)))).map(all(_))
  }

  /** The results of all partitions, in order. */
  def collect[A](rows: RDD[A]): Seq[A] = perPartition(rows)(_.toVector).flatten

  /** The sum of all rows. */
  def fold[A](rows: RDD[A])(zero: A)(add: (A, A) => A): A =
    perPartition(rows)(_.fold(zero)(add)).fold(zero)(add)

  private def perPartition[A, B](rows: RDD[A])(result: Iterator[A] => B): Seq[B] = {
    val bytes = rows.sparkContext.runJob(rows, (all: Iterator[A]) => Utils.serialize(result(all)))
    val loader = Utils.getContextOrSparkClassLoader
    bytes.toSeq.map(Utils.deserialize[B](_, loader))
  }
}
