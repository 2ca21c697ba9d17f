package org.apache.spark.sql.execution.streaming.state.cleancut.sequence

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.{ExpressionEncoder, RowEncoder}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.{DataType, ObjectType, StructType}

/**
 * Encoders of rows as Spark has them, which turn no value into another form: for functions on whole
 * rows, to which it is all one what is in most columns.
 */
private[sequence] object RowObjects {

  /** Its objects are the very rows, good until the next one is asked for. */
  def encoder(schema: StructType): ExpressionEncoder[InternalRow] = of(schema, isCopied = false)

  /** Its objects are rows of their own. */
  def copying(schema: StructType): ExpressionEncoder[InternalRow] = of(schema, isCopied = true)

  private def of(schema: StructType, isCopied: Boolean): ExpressionEncoder[InternalRow] = {
    val row = BoundReference(0, schema, nullable = false)
    val columns = schema.fields.toSeq.zipWithIndex.flatMap { case (field, place) =>
      Seq(Literal(field.name), GetStructField(row, place, Some(field.name)))
    }
    // Spark takes of the first one only that its objects are structs.
    new ExpressionEncoder(
      RowEncoder.encoderFor(schema),
      CreateNamedStruct(columns),
      WholeRow(isCopied)
    ).asInstanceOf[ExpressionEncoder[InternalRow]]
  }
}

/** The row that an expression is evaluated on, as an object. */
private[sequence] case class WholeRow(isCopied: Boolean) extends LeafExpression {
  override def dataType: DataType = ObjectType(classOf[InternalRow])
  override def nullable: Boolean = false

  override def eval(input: InternalRow): Any = if (isCopied) input.copy() else input

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val row = if (isCopied) s"${ctx.INPUT_ROW}.copy()" else ctx.INPUT_ROW
    val kind = classOf[InternalRow].getName
    ev.copy(code = code"final $kind ${ev.value} = ($kind) $row;", isNull = FalseLiteral)
  }
}
