package org.apache.spark.sql.execution.streaming.state.cleancut.sequence

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.{ExpressionEncoder, RowEncoder}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.{DataType, ObjectType, StructType}

/**
 * Encoders of rows in Spark's internal form, without conversions of values: for functions on
 * complete rows that do not use most columns.
 */
private[sequence] object RowObjects {

  /** Its objects are Spark's rows, valid until the next one is requested. */
  def encoder(schema: StructType): ExpressionEncoder[InternalRow] = of(schema, isCopied = false)

  /** Its objects are copies. */
  def copying(schema: StructType): ExpressionEncoder[InternalRow] = of(schema, isCopied = true)

  private def of(schema: StructType, isCopied: Boolean): ExpressionEncoder[InternalRow] = {
    val row = BoundReference(0, schema, nullable = false)
    val columns = schema.fields.toSeq.zipWithIndex.flatMap { case (field, place) =>
      Seq(Literal(field.name), GetStructField(row, place, Some(field.name)))
    }
    // Spark uses the first argument only to know that the objects are structs.
    new ExpressionEncoder(
      RowEncoder.encoderFor(schema),
      CreateNamedStruct(columns),
      WholeRow(isCopied)
    ).asInstanceOf[ExpressionEncoder[InternalRow]]
  }
}

/** The row that an expression is evaluated for, as an object. */
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
