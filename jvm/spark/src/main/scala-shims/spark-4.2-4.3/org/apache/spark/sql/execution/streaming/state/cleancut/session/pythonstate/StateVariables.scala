package org.apache.spark.sql.execution.streaming.state.cleancut.session.pythonstate

import java.util.{List => JavaList}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import net.razorvine.pickle.Unpickler

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.execution.python.EvaluatePython
import org.apache.spark.sql.streaming.{ListState, MapState, ValueState}
import org.apache.spark.sql.types.StructType

import StateBatches._

/** The state variables of a task by name. */
final private[pythonstate] class StateVariables {
  private val byName = mutable.Map.empty[String, StateVariable]

  def apply(name: String): StateVariable = byName.getOrElse(
    name,
    throw new IllegalArgumentException(s"State variable $name is not initialized.")
  )

  def add(name: String, variable: StateVariable): Unit = byName(name) = variable

  def remove(name: String): Unit = byName -= name
}

/** A state variable of the current grouping key, in Python's representation. */
sealed private[pythonstate] trait StateVariable {

  /** @param value a row, or several, as the operation requires */
  def write(operation: Int, value: Object): Unit

  /** A function that reads the variable of the current key. */
  def reader(operation: Int, argument: Object, binaryAsBytes: Boolean): () => Any
}

private object StateVariable {
  def unknown(operation: Int): Nothing =
    throw new IllegalArgumentException(s"Operation $operation is unknown.")
}

final private[pythonstate] class ValueVariable(state: ValueState[Row], schema: StructType)
    extends StateVariable {
  private val rows = new PickledRows(schema)

  override def write(operation: Int, value: Object): Unit = operation match {
    case ValueUpdate => state.update(rows.row(value))
    case Clear       => state.clear()
    case _           => StateVariable.unknown(operation)
  }

  override def reader(operation: Int, argument: Object, binaryAsBytes: Boolean): () => Any =
    operation match {
      case Exists   => () => state.exists()
      case ValueGet => () => rows.values(state.get(), binaryAsBytes)
      case _        => StateVariable.unknown(operation)
    }
}

final private[pythonstate] class ListVariable(state: ListState[Row], schema: StructType)
    extends StateVariable {
  private val rows = new PickledRows(schema)

  override def write(operation: Int, value: Object): Unit = operation match {
    case ListPut       => state.put(all(value))
    case ListAppend    => state.appendValue(rows.row(value))
    case ListAppendAll => state.appendList(all(value))
    case Clear         => state.clear()
    case _             => StateVariable.unknown(operation)
  }

  private def all(values: Object): Array[Row] =
    values.asInstanceOf[JavaList[Object]].asScala.map(rows.row).toArray

  override def reader(operation: Int, argument: Object, binaryAsBytes: Boolean): () => Any =
    operation match {
      case Exists  => () => state.exists()
      case ListGet => () => Listed.from(state.get())(rows.values(_, binaryAsBytes))
      case _       => StateVariable.unknown(operation)
    }
}

final private[pythonstate] class MapVariable(
    state: MapState[Row, Row],
    keySchema: StructType,
    valueSchema: StructType
) extends StateVariable {
  private val keys = new PickledRows(keySchema)
  private val values = new PickledRows(valueSchema)

  override def write(operation: Int, value: Object): Unit = operation match {
    case MapUpdate =>
      val entry = value.asInstanceOf[Array[Object]]
      state.updateValue(keys.row(entry(0)), values.row(entry(1)))
    case MapRemove => state.removeKey(keys.row(value))
    case Clear     => state.clear()
    case _         => StateVariable.unknown(operation)
  }

  override def reader(operation: Int, argument: Object, binaryAsBytes: Boolean): () => Any =
    operation match {
      case Exists => () => state.exists()
      case MapGet =>
        val key = keys.row(argument)
        () => values.values(state.getValue(key), binaryAsBytes)
      case MapContains =>
        val key = keys.row(argument)
        () => state.containsKey(key)
      case MapEntries =>
        () =>
          Listed.from(state.iterator()) { case (key, value) =>
            Array[Any](keys.values(key, binaryAsBytes), values.values(value, binaryAsBytes))
          }
      case MapKeys   => () => Listed.from(state.keys())(keys.values(_, binaryAsBytes))
      case MapValues => () => Listed.from(state.values())(values.values(_, binaryAsBytes))
      case _         => StateVariable.unknown(operation)
    }
}

private object Listed {

  /** Longer lists are read page by page, by Spark's own requests. */
  private val MaxElements = 100

  /** The elements, or null if there are too many. */
  def from[A](elements: Iterator[A])(convert: A => Any): java.util.ArrayList[Any] = {
    val list = new java.util.ArrayList[Any]
    while (elements.hasNext && list.size < MaxElements) list.add(convert(elements.next()))
    if (elements.hasNext) null else list
  }
}

/**
 * Converts rows of a schema as `PythonSQLUtils.toJVMRow` and `toPyRow` do, with converters that are
 * created once. The fields of a row are not in a `Row` of Python, because its pickle would contain
 * the schema.
 */
final private[pythonstate] class PickledRows(schema: StructType) {
  private val fromPython = EvaluatePython.makeFromJava(schema)
  private val toRow = ExpressionEncoder(schema).resolveAndBind().createDeserializer()
  private val toCatalyst = CatalystTypeConverters.createToCatalystConverter(schema)
  private val types = schema.fields.map(_.dataType)
  private lazy val unpickler = new Unpickler

  /** @param value the unpickled row, or its pickle */
  def row(value: Object): Row = {
    val unpickled = value match {
      case pickle: Array[Byte] => unpickler.loads(pickle)
      case other               => other
    }
    toRow(fromPython(unpickled).asInstanceOf[InternalRow])
  }

  /** The fields of a row; null if there is none. */
  def values(row: Row, binaryAsBytes: Boolean): Array[Any] =
    if (row == null) null
    else {
      val fields = toCatalyst(row).asInstanceOf[InternalRow]
      Array.tabulate[Any](types.length) { i =>
        if (fields.isNullAt(i)) null
        else EvaluatePython.toJava(fields.get(i, types(i)), types(i), binaryAsBytes)
      }
    }
}
