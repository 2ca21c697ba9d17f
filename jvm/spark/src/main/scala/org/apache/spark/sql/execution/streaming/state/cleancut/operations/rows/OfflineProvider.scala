package org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID
import java.util.concurrent.atomic.AtomicBoolean

import scala.collection.immutable.ArraySeq
import scala.collection.mutable

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._
import org.apache.spark.unsafe.Platform
import org.apache.spark.util.CompletionIterator

/**
 * The rows of a store, independent of the order in which they are read.
 *
 * @param digest
 *   sum of a 64-bit hash of each row: family, key, value, and index among the values of its key
 */
final private[operations] case class RowsOfStore(rows: Long, digest: Long) {
  def +(other: RowsOfStore): RowsOfStore = RowsOfStore(rows + other.rows, digest + other.digest)
}

private[operations] object RowsOfStore {
  val None: RowsOfStore = RowsOfStore(0L, 0L)
}

/**
 * A store, and the access settings of its schema files, which are in the location of the stored
 * query.
 */
final private[operations] case class StoredSchemas(store: StoredStore, access: PlaceAccess)

/**
 * The provider of one store, opened outside a query.
 *
 * @param runId
 *   run ID of the operation, so that its stores belong to no query
 */
final private[operations] class OfflineProvider(
    stateRoot: String,
    operator: StoredOperator,
    schemas: StoredSchemas,
    partition: Int,
    runId: UUID,
    conf: StateStoreConf,
    hadoopConf: Configuration
) extends AutoCloseable {
  private val store = schemas.store
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
          .createStateSchemaMetadata(
            stateRoot,
            schemas.access.in(hadoopConf),
            store.schemaFiles.toList
          )
      )
    )
  )

  /** Calls `each` for each key of each family. */
  def read(version: Long, id: Option[String])(each: (StoredFamily, Entry) => Unit): Unit = {
    val from = StoredReads.open(provider, version, id)
    try store.families.foreach(family => reading(from, family)(_.foreach(each(family, _))))
    finally StoredReads.close(from)
  }

  /**
   * The keys of families, one by one. Open iterators are closed after the last key, or by the end
   * of the task.
   */
  def entries(
      version: Long,
      id: Option[String],
      families: Seq[StoredFamily] = store.families
  ): Iterator[(StoredFamily, Entry)] = {
    val from = StoredReads.open(provider, version, id)
    val end = new AtomicBoolean
    def close(): Unit = if (!end.getAndSet(true)) {
      StoredReads.close(from)
      provider.close()
    }
    TaskContext.get().addTaskCompletionListener[Unit](_ => close())
    val all = families.iterator.flatMap { family =>
      register(from, family)
      Entry.of(family, rowsOf(from, family)).map(family -> _)
    }
    CompletionIterator[(StoredFamily, Entry), Iterator[(StoredFamily, Entry)]](all, close())
  }

  private def reading(from: ReadStateStore, family: StoredFamily)(
      action: Iterator[Entry] => Unit
  ): Unit = {
    register(from, family)
    val rows = rowsOf(from, family)
    try action(Entry.of(family, rows))
    finally rows.close()
  }

  private def rowsOf(
      from: ReadStateStore,
      family: StoredFamily
  ): StateStoreIterator[UnsafeRowPair] =
    if (family.holdsLists) StoreOperations.eachValue(from, family.name)
    else from.iterator(family.name)

  private def register(from: ReadStateStore, family: StoredFamily): Unit =
    if (!family.isDefault) StoredReads.register(from, family)

  /** Writes the next version, which contains only the rows that `fill` puts. */
  def write(version: Long)(fill: StateStore => Unit): StateStoreCheckpointInfo = {
    val to = StoreOperations.openEmpty(provider, version)
    try {
      store.families.filterNot(_.isDefault).foreach { family =>
        to.createColFamilyIfAbsent(
          family.name,
          family.schema.keySchema,
          family.schema.valueSchema,
          family.schema.keyStateEncoderSpec.get,
          family.holdsLists,
          family.isInternal
        )
      }
      fill(to)
      to.commit()
      to.getStateStoreCheckpointInfo()
    } finally if (!to.hasCommitted) to.abort()
  }

  override def close(): Unit = provider.close()
}

/** The rows of a key in a family. Rows are valid until the next entry is read. */
final private[operations] case class Entry(key: UnsafeRow, values: collection.Seq[UnsafeRow]) {

  def putTo(store: StateStore, family: StoredFamily): Unit =
    if (family.holdsLists) StoreOperations.putList(store, key, values.toArray, family.name)
    else store.put(key, values.head, family.name)
}

private[operations] object Entry {

  def of(family: StoredFamily, rows: Iterator[UnsafeRowPair]): Iterator[Entry] =
    if (family.holdsLists) lists(rows)
    else rows.map(pair => Entry(pair.key, ArraySeq(pair.value)))

  /** The values of a key are consecutive. */
  private def lists(rows: Iterator[UnsafeRowPair]): Iterator[Entry] = new Iterator[Entry] {
    private var ahead: (UnsafeRow, UnsafeRow) = read()

    override def hasNext: Boolean = ahead != null

    override def next(): Entry = {
      val key = ahead._1
      val values = mutable.ArrayBuffer.empty[UnsafeRow]
      while (ahead != null && ahead._1 == key) {
        values += ahead._2
        ahead = read()
      }
      Entry(key, values)
    }

    private def read() =
      if (!rows.hasNext) null
      else {
        val pair = rows.next()
        (pair.key.copy(), pair.value.copy())
      }
  }
}

/** Computes the digest of a store, independent of the order of rows. */
final private[operations] class RowsDigester {
  import RowsDigester.Seed

  private var rows = 0L
  private var digest = 0L

  def add(family: StoredFamily, entry: Entry): Unit = {
    val ofKey = hash(entry.key, seedOf(family.name))
    entry.values.indices.foreach { place =>
      digest += hash(entry.values(place), XXH64.hashInt(place, ofKey))
    }
    rows += entry.values.size
  }

  def result: RowsOfStore = RowsOfStore(rows, digest)

  private val seeds = mutable.HashMap.empty[String, Long]

  private def seedOf(family: String): Long = seeds.getOrElseUpdate(
    family, {
      val name = family.getBytes(UTF_8)
      XXH64.hashUnsafeBytes(name, Platform.BYTE_ARRAY_OFFSET.toLong, name.length, Seed)
    }
  )

  private def hash(row: UnsafeRow, seed: Long) =
    XXH64.hashUnsafeBytes(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, seed)
}

private object RowsDigester {
  private val Seed = 42L
}
