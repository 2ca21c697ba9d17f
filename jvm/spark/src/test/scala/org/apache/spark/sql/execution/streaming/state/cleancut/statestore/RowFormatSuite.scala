package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import Providers._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.types._
import org.apache.spark.{SparkException, SparkThrowable}

/**
 * Spark's validation of rows against their schemas. Earlier, it failed for rows that the task had
 * put. flatMapGroupsWithState puts such rows in state format 1: its timeout is declared as an
 * integer and written as a long.
 */
class RowFormatSuite extends AnyFunSuite {
  private val Narrower = StructType(
    Seq(StructField("count", IntegerType), StructField("sum", DoubleType))
  )

  test("rows that the query has put are readable with any schema") {
    val setup = Providers.setup().copy(valueSchema = Narrower)
    val provider = setup.open()
    val store = provider.getStore(0)
    store.put(key(1), value(-1L))
    assert(store.get(key(1)) == value(-1L))
    store.commit()
    val next = provider.getStore(1)
    assert(next.get(key(1)) == value(-1L))
    assert(next.iterator().map(_.value.copy()).toSeq == Seq(value(-1L)))
    next.abort()
    provider.close()
  }

  test("rows of the checkpoint that do not match the schema fail the load") {
    val setup = Providers.setup()
    val first = setup.open()
    commit(first, 0, 1L -> -1L)
    first.close()
    val narrower = setup.copy(valueSchema = Narrower).open()
    val error = intercept[SparkException](narrower.getStore(1))
    // Spark 4.0 has the reason in the cause.
    val conditions = Seq(error, error.getCause).collect { case thrown: SparkThrowable =>
      thrown.getCondition
    }
    assert(conditions.head.startsWith("CANNOT_LOAD_STATE_STORE."))
    assert(conditions.exists(_.endsWith("VALUE_ROW_FORMAT_VALIDATION_FAILURE")), conditions)
    narrower.close()
    val again = setup.open()
    val store = again.getReadStore(1)
    assert(store.get(key(1)) == value(-1L))
    store.release()
    again.close()
  }
}
