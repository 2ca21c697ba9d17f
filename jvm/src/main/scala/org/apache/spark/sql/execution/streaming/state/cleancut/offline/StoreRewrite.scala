package org.apache.spark.sql.execution.streaming.state.cleancut.offline

import java.util.UUID

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.StateStoreColumnFamilySchemaUtils
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.unsafe.Platform

/**
 * What a store holds, whatever the order in which it is read.
 *
 * @param digest
 *   the sum of a 64-bit hash of each row: family, key, value, and place among the values of its key
 */
final private[cleancut] case class RowsOfStore(rows: Long, digest: Long) {
  def +(other: RowsOfStore): RowsOfStore = RowsOfStore(rows + other.rows, digest + other.digest)
}

/**
 * The provider of one store, opened outside of a query.
 *
 * @param runId
 *   that of the act, so that its stores are no query's
 */
final private[offline] class OfflineProvider(
    stateRoot: String,
    operator: StoredOperator,
    store: StoredStore,
    partition: Int,
    runId: UUID,
    conf: StateStoreConf,
    hadoopConf: Configuration
) extends AutoCloseable {
  private val default = store.families.find(_.isDefault).getOrElse(store.families.head).schema

  private val provider = StateStoreProvider.createAndInit(
    StateStoreProviderId(StateStoreId(stateRoot, operator.id, partition, store.name), runId),
    default.keySchema,
    default.valueSchema,
    default.keyStateEncoderSpec.get,
    store.hasFamilies,
    conf,
    hadoopConf,
    useMultipleValuesPerKey = false,
    stateSchemaProvider = Option.when(operator.hasSchemaIds && store.schemaFiles.nonEmpty)(
      new InMemoryStateSchemaProvider(
        StateSchemaMetadata
          .createStateSchemaMetadata(stateRoot, hadoopConf, store.schemaFiles.toList)
      )
    )
  )

  // `transformWithState` describes a default family that its stores do not use.
  private val families = store.families.filter(of => !of.isDefault || !operator.hasSchemaIds)

  /** Calls for each family with its rows, the values of a key one after the other. */
  def read(version: Long, id: Option[String])(
      each: (StoredFamily, Iterator[UnsafeRowPair]) => Unit
  ): Unit = {
    val from = provider.getReadStore(version, id)
    try
      families.foreach { family =>
        if (!family.isDefault) {
          from.registerColFamily(
            family.name,
            family.schema.keySchema,
            family.schema.valueSchema,
            family.schema.keyStateEncoderSpec.get,
            family.holdsLists,
            StateStoreColumnFamilySchemaUtils.isInternalColFamily(family.name)
          )
        }
        val rows =
          if (family.holdsLists) from.iteratorWithMultiValues(family.name)
          else from.iterator(family.name)
        try each(family, rows)
        finally rows.close()
      }
    finally from.release()
  }

  /** Makes the version after one, of nothing but what `fill` puts. */
  def write(version: Long)(fill: StateStore => Unit): StateStoreCheckpointInfo = {
    val to = provider.getStore(version, None, forceSnapshotOnCommit = false, loadEmpty = true)
    try {
      families.filterNot(_.isDefault).foreach { family =>
        to.createColFamilyIfAbsent(
          family.name,
          family.schema.keySchema,
          family.schema.valueSchema,
          family.schema.keyStateEncoderSpec.get,
          family.holdsLists,
          StateStoreColumnFamilySchemaUtils.isInternalColFamily(family.name)
        )
      }
      fill(to)
      to.commit()
      to.getStateStoreCheckpointInfo()
    } finally if (!to.hasCommitted) to.abort()
  }

  override def close(): Unit = provider.close()
}

private[offline] object StoreRewrite {
  private val Seed = 42L

  /** Puts the rows of a family into a store, and adds them up. */
  def copy(
      family: StoredFamily,
      rows: Iterator[UnsafeRowPair],
      to: StateStore
  ): RowsOfStore =
    if (family.holdsLists) copyLists(family, rows, to)
    else {
      val sum = new Sum(family)
      rows.foreach { pair =>
        sum.add(pair.key, pair.value, place = 0)
        to.put(pair.key, pair.value, family.name)
      }
      sum.result
    }

  /** Only adds them up. */
  def sum(family: StoredFamily, rows: Iterator[UnsafeRowPair]): RowsOfStore = {
    val sum = new Sum(family)
    if (family.holdsLists) eachList(rows)((key, values) => sum.addAll(key, values))
    else rows.foreach(pair => sum.add(pair.key, pair.value, place = 0))
    sum.result
  }

  private def copyLists(
      family: StoredFamily,
      rows: Iterator[UnsafeRowPair],
      to: StateStore
  ): RowsOfStore = {
    val sum = new Sum(family)
    eachList(rows) { (key, values) =>
      sum.addAll(key, values)
      to.putList(key, values.toArray, family.name)
    }
    sum.result
  }

  private def eachList(
      rows: Iterator[UnsafeRowPair]
  )(act: (UnsafeRow, collection.Seq[UnsafeRow]) => Unit): Unit = {
    var key: UnsafeRow = null
    val values = mutable.ArrayBuffer.empty[UnsafeRow]
    rows.foreach { pair =>
      if (key == null || key != pair.key) {
        if (key != null) act(key, values)
        key = pair.key.copy()
        values.clear()
      }
      values += pair.value.copy()
    }
    if (key != null) act(key, values)
  }

  /** Adds up the hashes of rows. */
  final private class Sum(family: StoredFamily) {
    private val name = family.name.getBytes("UTF-8")
    private val seed =
      XXH64.hashUnsafeBytes(name, Platform.BYTE_ARRAY_OFFSET.toLong, name.length, Seed)
    private var rows = 0L
    private var digest = 0L

    def add(key: UnsafeRow, value: UnsafeRow, place: Int): Unit = {
      val ofKey = hash(key, seed)
      digest += hash(value, XXH64.hashInt(place, ofKey))
      rows += 1
    }

    def addAll(key: UnsafeRow, values: collection.Seq[UnsafeRow]): Unit =
      values.indices.foreach(place => add(key, values(place), place))

    def result: RowsOfStore = RowsOfStore(rows, digest)

    private def hash(row: UnsafeRow, seed: Long) =
      XXH64.hashUnsafeBytes(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, seed)
  }
}
