package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import scala.reflect.ClassTag

import org.apache.spark.rdd.RDD
import org.apache.spark.util.Utils
import org.apache.spark.{Partition, SparkContext, TaskContext}

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
  ): RDD[A] = new Values(context, values.toIndexedSeq, values.map(preferred).toIndexedSeq)

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

/** Spark's RDD of a collection would serialize the values of a partition as rows. */
final private class Values[A: ClassTag](
    context: SparkContext,
    all: IndexedSeq[A],
    @transient private val preferred: IndexedSeq[Seq[String]]
) extends RDD[A](context, Nil) {
  override protected def getPartitions: Array[Partition] =
    all.indices.map(at => new ValuePartition(at): Partition).toArray

  override def compute(split: Partition, context: TaskContext): Iterator[A] =
    Iterator.single(all(split.index))

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    preferred(split.index)
}

final private class ValuePartition(override val index: Int) extends Partition
