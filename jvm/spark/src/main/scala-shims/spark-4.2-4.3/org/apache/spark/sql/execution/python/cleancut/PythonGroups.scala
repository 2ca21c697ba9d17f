package org.apache.spark.sql.execution.python.cleancut

import org.apache.spark.api.python.BasePythonRunner
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.python.PandasGroupUtils
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Spark's grouping of the rows for Python, which is visible in Spark's package only. */
private[sql] object PythonGroups {

  /** The columns that are sent to Python, and PySpark's positions of keys and values in them. */
  final case class Columns(attributes: Seq[Attribute], offsets: Array[Int])

  def columns(output: Seq[Attribute], grouping: Seq[Attribute]): Columns = {
    val (attributes, offsets) = PandasGroupUtils.resolveArgOffsets(output, grouping)
    Columns(attributes, offsets)
  }

  def group(
      rows: Iterator[InternalRow],
      grouping: Seq[Attribute],
      output: Seq[Attribute],
      columns: Seq[Attribute]
  ): Iterator[(InternalRow, Iterator[InternalRow])] =
    PandasGroupUtils.groupAndProject(rows, grouping, output, columns)

  def execute[A](
      groups: Iterator[A],
      output: Seq[Attribute],
      runner: BasePythonRunner[A, ColumnarBatch]
  ): Iterator[InternalRow] = PandasGroupUtils.executePython(groups, output, runner)
}
