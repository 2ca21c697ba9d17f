package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.nio.ByteBuffer
import java.util.UUID

import org.apache.spark.Partitioner
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.GroupedFiles
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreCheckpointInfo}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.rows._
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored._
import org.apache.spark.util.SerializableConfiguration

import io.cleancut.error.Errors

/** A version that was made of a store. The store is identified by its index in its operator. */
private[operations] trait Written {
  def operator: Long
  def partition: Int
  def store: Int

  /** ID of the version, if the checkpoint has version IDs. */
  def id: Option[String]
}

/**
 * A store that was written.
 *
 * @param info
 *   names the version, if the checkpoint has version IDs
 */
final private[operations] case class Rewritten(
    operator: Long,
    partition: Int,
    store: Int,
    sum: RowsOfStore,
    info: StateStoreCheckpointInfo
) extends Written {
  override def id: Option[String] = info.stateStoreCkptId
}

/**
 * Makes a version of every store of a query from its current stores, on Spark's executors. If the
 * partitions stay the same, each is a task, and holds one row in memory at a time. If they change,
 * rows go through an exchange, with all values of a key together. The written rows are then read
 * back and compared with the source rows.
 *
 * @param from
 *   stores to read, at the version after `query.epoch`
 * @param to
 *   stores in which the version after `target.epoch` is written
 * @param run
 *   run under which stores are opened
 */
final private[operations] class StateRewrite(
    session: SparkSession,
    query: StoredQuery,
    target: OfflineTarget,
    from: StoresAt,
    to: StoresAt,
    run: OfflineRun
) {
  import StateRewrite._

  /**
   * Rewrites the state with the current partitions, or with this number for operators that are
   * partitioned by key. Edits replace some of the rows.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_REWRITE_MISMATCH
   */
  def apply(partitions: Option[Int], edit: Option[Edited] = None): Seq[Rewritten] = running {
    stores =>
      checked(stores) {
        if (partitions.isEmpty && edit.isEmpty) copied(stores)
        else {
          val migrations = tasks.map { task =>
            val left = edit.map(_.rows).filter(_.operator.id == task.operator.id)
            StoreMigration(task, task.operator, left.toSeq.flatMap(_.places).toSet)
          }
          moved(stores, partitions.getOrElse(query.partitions), edit.toSeq, migrations)
        }
      }
  }

  /**
   * Writes given rows, each of another column family, and rows that are carried over from operators
   * of another query.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_REWRITE_MISMATCH
   */
  def fill(rows: Seq[Edited], carried: Seq[StoreMigration]): Seq[Rewritten] = running { stores =>
    checked(stores)(moved(stores, query.partitions, rows, carried))
  }

  private def checked(stores: OfflineStores)(write: => Seq[Rewritten]): Seq[Rewritten] = {
    val written = write
    run.settle(target)
    check(stores, written)
    written
  }

  private def copied(stores: OfflineStores): Seq[Rewritten] = ExecutorTasks.collect(
    ExecutorTasks
      .each(session.sparkContext, tasks)
      .flatMap(task => task.operator.stores.indices.map(stores.copy(task, _)))
  )

  private def moved(
      stores: OfflineStores,
      partitions: Int,
      edits: Seq[Edited],
      migrations: Seq[StoreMigration]
  ): Seq[Rewritten] = {
    val targets = query.operators.flatMap { operator =>
      operator.partitionsOf(partitions).map(operator.id -> _)
    }
    val places = targets.zipWithIndex.toMap
    val stored = ExecutorTasks
      .each(session.sparkContext, migrations)
      .flatMap(stores.spread(_, partitions, places))
    val added = edits.map { edit =>
      val rows = edit.rows
      edit.internal.mapPartitions(stores.divide(rows, _, partitions, places))
    }
    val rows = session.sparkContext.union(stored +: added).mapValues(_.toBytes)
    val byId = query.operators.map(operator => operator.id -> operator).toMap
    val written = ExecutorTasks.collect(
      rows
        .partitionBy(new Given(targets.size))
        .mapPartitionsWithIndex { (index, received) =>
          val (operator, partition) = targets(index)
          stores.fill(byId(operator), partition, received.map(pair => Row.of(pair._2)))
        }
    )
    checkMoved(written)
    written.flatMap(_.stores)
  }

  private def tasks: Seq[Task] = tasksOf(query)

  private def running[A](action: OfflineStores => A): A = {
    val conf = session.sparkContext.broadcast(
      new SerializableConfiguration(session.sessionState.newHadoopConf())
    )
    try
      action(new OfflineStores(query.epoch + 1, target.epoch, from, to, run.id, conf, query.access))
    finally conf.destroy()
  }

  /** Reads the written rows back, and compares them with the source rows. */
  private def check(stores: OfflineStores, written: Seq[Rewritten]): Unit = {
    val byId = query.operators.map(operator => operator.id -> operator).toMap
    val tasks = written.map(store => byId(store.operator) -> store)
    val sums = ExecutorTasks.collect(
      ExecutorTasks
        .each(session.sparkContext, tasks)
        .map { case (operator, store) => stores.sumOf(operator, store) }
    )
    written.zip(sums).filter { case (copy, sum) => copy.sum != sum }.foreach { case (copy, sum) =>
      val store = byId(copy.operator).stores(copy.store).name
      throw Errors.rewriteMismatch(
        to.stateRoot,
        copy.operator,
        copy.partition,
        store,
        copy.sum.rows,
        sum.rows
      )
    }
  }

  /**
   * Checks that the rows that all partitions of an operator's store received are those that were
   * sent.
   */
  private def checkMoved(written: Seq[Filled]): Unit =
    for (operator <- query.operators; index <- operator.stores.indices) {
      def sum(side: Filled => Map[Int, RowsOfStore]) = written
        .filter(_.operator == operator.id)
        .flatMap(side(_).get(index))
        .foldLeft(RowsOfStore.None)(_ + _)
      val (left, arrived) = (sum(_.left), sum(_.arrived))
      if (left != arrived) {
        val store = operator.stores(index).name
        throw Errors
          .rewriteMismatch(to.stateRoot, operator.id, -1, store, left.rows, arrived.rows)
      }
    }
}

private[operations] object StateRewrite {

  /** One task for each partition of each operator. */
  def tasksOf(query: StoredQuery): Seq[Task] = for {
    operator <- query.operators
    partition <- operator.partitions
  } yield Task(
    operator,
    partition,
    operator.stores.indices.map(query.uniqueId(operator.id, partition, _))
  )

  /** Rows that replace stored rows. Rows that are stored together are one row. */
  final case class Edited(rows: EditableRows, internal: RDD[InternalRow])

  object Edited {
    def of(rows: EditableRows, frame: DataFrame): Edited =
      Edited(rows, EditableRows.internal(rows.grouped(rows.normalized(frame))))
  }

  final case class Task(operator: StoredOperator, partition: Int, ids: Seq[Option[String]])

  /** A task whose rows go to an operator, except for some column families. */
  final case class StoreMigration(task: Task, to: StoredOperator, left: Set[StateRows])

  /** A record of the exchange: rows of a key, or the digest of all rows of a store. */
  sealed trait Row {

    /** Every serializer supports byte arrays. */
    def toBytes: Array[Byte]
  }

  final case class KeyRow(store: Int, family: Int, key: Array[Byte], values: Array[Array[Byte]])
      extends Row {
    override def toBytes: Array[Byte] = {
      val size = 4 * Integer.BYTES + key.length + values.map(Integer.BYTES + _.length).sum
      val bytes = ByteBuffer.allocate(size).putInt(family).putInt(store)
      bytes.putInt(key.length).put(key).putInt(values.length)
      values.foreach(value => bytes.putInt(value.length).put(value))
      bytes.array
    }
  }

  final case class SumRow(store: Int, left: RowsOfStore) extends Row {
    override def toBytes: Array[Byte] = ByteBuffer
      .allocate(2 * Integer.BYTES + 2 * java.lang.Long.BYTES)
      .putInt(NoFamily)
      .putInt(store)
      .putLong(left.rows)
      .putLong(left.digest)
      .array
  }

  object Row {
    def of(bytes: Array[Byte]): Row = {
      val in = ByteBuffer.wrap(bytes)
      val (family, store) = (in.getInt(), in.getInt())
      if (family == NoFamily) SumRow(store, RowsOfStore(in.getLong(), in.getLong()))
      else {
        val key = next(in)
        KeyRow(store, family, key, Array.fill(in.getInt())(next(in)))
      }
    }

    private def next(in: ByteBuffer): Array[Byte] = {
      val bytes = new Array[Byte](in.getInt())
      in.get(bytes)
      bytes
    }
  }

  private val NoFamily = -1

  /** The rows that a partition received, by store, and the digests that the senders reported. */
  final case class Filled(
      operator: Long,
      stores: Seq[Rewritten],
      arrived: Map[Int, RowsOfStore],
      left: Map[Int, RowsOfStore]
  )

  /** Keys are partition numbers. */
  final private class Given(override val numPartitions: Int) extends Partitioner {
    override def getPartition(key: Any): Int = key.asInstanceOf[Int]
  }
}

/**
 * Operations of rewrite tasks on stores.
 *
 * @param version
 *   version that is read
 * @param before
 *   version before the one that is written
 * @param described
 *   access settings of the location with the schema files
 */
final private[operations] class OfflineStores(
    version: Long,
    before: Long,
    from: StoresAt,
    to: StoresAt,
    runId: UUID,
    hadoopConf: Broadcast[SerializableConfiguration],
    described: PlaceAccess
) extends Serializable {
  import StateRewrite._

  /** Copies a store unchanged. */
  def copy(task: Task, index: Int): Rewritten = {
    val store = task.operator.stores(index)
    val read = new RowsDigester
    val info = using(open(from, task.operator, store, task.partition)) { source =>
      using(open(to, task.operator, store, task.partition)) { target =>
        target.write(before) { out =>
          source.read(version, task.ids(index)) { (family, entry) =>
            read.add(family, entry)
            entry.putTo(out, family)
          }
        }
      }
    }
    Rewritten(task.operator.id, task.partition, index, read.result, info)
  }

  /** Keys and values of one column family of a partition. */
  def rowsOf(task: Task, at: FamilyAt): Iterator[(UnsafeRow, Seq[UnsafeRow])] =
    open(from, task.operator, task.operator.stores(at.store), task.partition)
      .entries(version, task.ids(at.store), Seq(task.operator.familyAt(at)))
      .map { case (_, entry) => (entry.key.copy(), entry.values.map(_.copy()).toSeq) }

  /** The rows that replace stored ones, with their target partitions. */
  def divide(
      edited: EditableRows,
      rows: Iterator[InternalRow],
      partitions: Int,
      targets: Map[(Long, Int), Int]
  ): Iterator[(Int, Row)] = {
    val operator = edited.operator
    val places = edited.families.map { at =>
      val store = operator.stores(at.store)
      at -> PartitionOfKey.of(operator, store, operator.familyAt(at), partitions)
    }.toMap
    val sums = edited.families.map(_.store).distinct.map(_ -> new RowsDigester).toMap
    val divided = rows.flatMap(edited.entries()).map { case (at, entry) =>
      sums(at.store).add(operator.familyAt(at), entry)
      val values = entry.values.map(_.getBytes).toArray
      val bytes = KeyRow(at.store, at.family, entry.key.getBytes, values)
      (targets(operator.id -> places(at)(entry.key)), bytes: Row)
    }
    val last = sums.iterator.map { case (store, sum) =>
      (targets(operator.id -> 0), SumRow(store, sum.result): Row)
    }
    divided ++ last
  }

  /** The rows of a partition with their partitions in `targets`. */
  def spread(
      migration: StoreMigration,
      partitions: Int,
      targets: Map[(Long, Int), Int]
  ): Iterator[(Int, Row)] = {
    val StoreMigration(task, to, left) = migration
    task.operator.stores.indices.iterator.flatMap { index =>
      val store = task.operator.stores(index)
      val families = store.families.filterNot { family =>
        left(StateRows(task.operator.id, store.name, family.name))
      }
      val target = to.stores.indexWhere(_.name == store.name)
      if (families.isEmpty || target < 0) Iterator.empty
      else spreadStore(migration, index, families, target, partitions, targets)
    }
  }

  private def spreadStore(
      migration: StoreMigration,
      index: Int,
      families: Seq[StoredFamily],
      target: Int,
      partitions: Int,
      targets: Map[(Long, Int), Int]
  ): Iterator[(Int, Row)] = {
    val StoreMigration(task, to, _) = migration
    val store = task.operator.stores(index)
    val places = families.map { family =>
      family.name -> PartitionOfKey.of(task.operator, store, family, partitions)
    }.toMap
    val familyAt = to.stores(target).families.map(_.name).zipWithIndex.toMap
    val sum = new RowsDigester
    val source = open(from, task.operator, store, task.partition)
    // Spark reads the rows one by one. If it fails earlier, the end of the task closes open stores.
    val rows = source.entries(version, task.ids(index), families).map { case (family, entry) =>
      sum.add(family, entry)
      val place = targets(to.id -> places(family.name)(entry.key))
      // A provider may reuse a returned row for the next one.
      val values = entry.values.map(_.copy().getBytes).toArray
      (place, KeyRow(target, familyAt(family.name), entry.key.copy().getBytes, values): Row)
    }
    val last = Iterator(() => (targets(to.id -> 0), SumRow(target, sum.result): Row))
    rows ++ last.map(_())
  }

  /** Writes the stores of one partition from the rows that it received. */
  def fill(operator: StoredOperator, partition: Int, rows: Iterator[Row]): Iterator[Filled] = {
    val sums = operator.stores.map(_ => new RowsDigester)
    var left = Map.empty[Int, RowsOfStore]
    val infos = fillAll(operator, partition) { outs =>
      rows.foreach {
        case SumRow(store, sum) => left += store -> (left.getOrElse(store, RowsOfStore.None) + sum)
        case KeyRow(store, at, key, values) =>
          val family = operator.stores(store).families(at)
          val entry = Entry(
            row(key, family.schema.keySchema.length),
            values.map(row(_, family.schema.valueSchema.length)).toSeq
          )
          sums(store).add(family, entry)
          entry.putTo(outs(store), family)
      }
    }
    val written = infos.zipWithIndex.map { case (info, index) =>
      Rewritten(operator.id, partition, index, sums(index).result, info)
    }
    val arrived = sums.map(_.result).zipWithIndex.map(_.swap).toMap
    Iterator(Filled(operator.id, written, arrived, left))
  }

  /** Opens all stores of a partition at the same time, because their rows are interleaved. */
  private def fillAll(operator: StoredOperator, partition: Int)(
      fill: Seq[StateStore] => Unit
  ): Seq[StateStoreCheckpointInfo] = {
    def next(outs: Seq[StateStore], rest: Seq[StoredStore]): Seq[StateStoreCheckpointInfo] =
      rest.headOption match {
        case None =>
          fill(outs)
          Nil
        case Some(store) =>
          var later = Seq.empty[StateStoreCheckpointInfo]
          val first = using(open(to, operator, store, partition)) { target =>
            target.write(before)(out => later = next(outs :+ out, rest.tail))
          }
          first +: later
      }
    next(Nil, operator.stores)
  }

  /** The digest of a store that was written. */
  def sumOf(operator: StoredOperator, written: Rewritten): RowsOfStore = {
    val sum = new RowsDigester
    using(open(to, operator, operator.stores(written.store), written.partition)) {
      _.read(before + 1, written.info.stateStoreCkptId)(sum.add)
    }
    sum.result
  }

  private def row(bytes: Array[Byte], fields: Int): UnsafeRow = {
    val row = new UnsafeRow(fields)
    row.pointTo(bytes, bytes.length)
    row
  }

  private def open(at: StoresAt, operator: StoredOperator, store: StoredStore, partition: Int) = {
    val conf = at.access.in(hadoopConf.value.value)
    at.savepoint.foreach(conf.set(GroupedFiles.SavepointKey, _))
    conf.setBoolean(GroupedFiles.ActKey, true)
    val schemas = StoredSchemas(store, described)
    new OfflineProvider(at.stateRoot, operator, schemas, partition, runId, at.conf, conf)
  }

  private def using[A](provider: OfflineProvider)(action: OfflineProvider => A): A =
    try action(provider)
    finally provider.close()
}
