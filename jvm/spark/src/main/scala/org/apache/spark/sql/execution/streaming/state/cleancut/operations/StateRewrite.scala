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

/** A version that was made of a store, which is told by its place among those of its operator. */
private[operations] trait Written {
  def operator: Long
  def partition: Int
  def store: Int

  /** That of the version, where the checkpoint has ids of versions. */
  def id: Option[String]
}

/**
 * What was written of a store.
 *
 * @param info
 *   names the version, where the checkpoint has ids of versions
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
 * Makes a version of every store of a query of what is in its stores as they are, on Spark's
 * executors. Where the partitions stay, each is a task, and a row is in memory as long as it takes
 * to put it; where they change, rows go through an exchange, all values of a key together. What has
 * been written is then read again, and compared with what was read.
 *
 * @param from
 *   where the stores are read, at the version after `query.epoch`
 * @param to
 *   where the version after `target.epoch` is made
 * @param run
 *   under which stores are opened
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
   * With the partitions that there are, or so many of what is spread by its keys; and with other
   * rows in the place of some.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_REWRITE_MISMATCH
   */
  def apply(partitions: Option[Int], edit: Option[Edited] = None): Seq[Rewritten] = running {
    stores =>
      checked(stores) {
        if (partitions.isEmpty && edit.isEmpty) copied(stores)
        else {
          val ways = tasks.map { of =>
            val left = edit.map(_.rows).filter(_.operator.id == of.operator.id)
            Way(of, of.operator, left.toSeq.flatMap(_.places).toSet)
          }
          moved(stores, partitions.getOrElse(query.partitions), edit.toSeq, ways)
        }
      }
  }

  /**
   * Of rows that are given, each of another family, and of what is carried over from operators of
   * another query.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_REWRITE_MISMATCH
   */
  def fill(rows: Seq[Edited], carried: Seq[Way]): Seq[Rewritten] = running { stores =>
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
      ways: Seq[Way]
  ): Seq[Rewritten] = {
    val targets = query.operators.flatMap { operator =>
      operator.partitionsOf(partitions).map(operator.id -> _)
    }
    val places = targets.zipWithIndex.toMap
    val stored = ExecutorTasks
      .each(session.sparkContext, ways)
      .flatMap(stores.spread(_, partitions, places))
    val added = edits.map { of =>
      val own = of.rows
      of.internal.mapPartitions(stores.divide(own, _, partitions, places))
    }
    val rows = session.sparkContext.union(stored +: added).mapValues(_.toBytes)
    val byId = query.operators.map(of => of.id -> of).toMap
    val written = ExecutorTasks.collect(
      rows
        .partitionBy(new Given(targets.size))
        .mapPartitionsWithIndex { (index, own) =>
          val (operator, partition) = targets(index)
          stores.fill(byId(operator), partition, own.map(of => Row.of(of._2)))
        }
    )
    checkMoved(written)
    written.flatMap(_.stores)
  }

  private def tasks: Seq[Task] = tasksOf(query)

  private def running[A](act: OfflineStores => A): A = {
    val conf = session.sparkContext.broadcast(
      new SerializableConfiguration(session.sessionState.newHadoopConf())
    )
    try act(new OfflineStores(query.epoch + 1, target.epoch, from, to, run.id, conf, query.access))
    finally conf.destroy()
  }

  /** Reads again what was written, and compares it with what was read to write it. */
  private def check(stores: OfflineStores, written: Seq[Rewritten]): Unit = {
    val byId = query.operators.map(of => of.id -> of).toMap
    val tasks = written.map(of => byId(of.operator) -> of)
    val found = ExecutorTasks.collect(
      ExecutorTasks
        .each(session.sparkContext, tasks)
        .map { case (operator, of) => stores.sumOf(operator, of) }
    )
    written.zip(found).filter { case (of, sum) => of.sum != sum }.foreach { case (of, sum) =>
      val store = byId(of.operator).stores(of.store).name
      throw Errors.rewriteMismatch(
        to.stateRoot,
        of.operator,
        of.partition,
        store,
        of.sum.rows,
        sum.rows
      )
    }
  }

  /** What arrived in all partitions of an operator's store is what left all of them. */
  private def checkMoved(written: Seq[Filled]): Unit =
    for (operator <- query.operators; index <- operator.stores.indices) {
      def sum(of: Filled => Map[Int, RowsOfStore]) = written
        .filter(_.operator == operator.id)
        .flatMap(of(_).get(index))
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

  /** One for each partition of each operator. */
  def tasksOf(query: StoredQuery): Seq[Task] = for {
    operator <- query.operators
    partition <- operator.partitions
  } yield Task(
    operator,
    partition,
    operator.stores.indices.map(query.uniqueId(operator.id, partition, _))
  )

  /** Rows that take the place of those that are stored, all that belong together as one. */
  final case class Edited(rows: EditableRows, internal: RDD[InternalRow])

  object Edited {
    def of(rows: EditableRows, frame: DataFrame): Edited =
      Edited(rows, EditableRows.internal(rows.grouped(rows.normalized(frame))))
  }

  final case class Task(operator: StoredOperator, partition: Int, ids: Seq[Option[String]])

  /** A task whose rows go to an operator, but for those of some families. */
  final case class Way(task: Task, to: StoredOperator, left: Set[StateRows])

  /** What goes through the exchange: rows of a key, and what all rows of a store add up to. */
  sealed trait Row {

    /** Any serializer takes an array of bytes. */
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

  /** What came to a partition, by store, and what it was told that had left others. */
  final case class Filled(
      operator: Long,
      stores: Seq[Rewritten],
      arrived: Map[Int, RowsOfStore],
      left: Map[Int, RowsOfStore]
  )

  /** Keys are the partitions. */
  final private class Given(override val numPartitions: Int) extends Partitioner {
    override def getPartition(key: Any): Int = key.asInstanceOf[Int]
  }
}

/**
 * What the tasks of a rewrite do with stores.
 *
 * @param version
 *   that is read
 * @param before
 *   the version before the one that is made
 * @param described
 *   how the place is reached where the files of schemas lie
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

  /** Writes a store as it is. */
  def copy(task: Task, index: Int): Rewritten = {
    val store = task.operator.stores(index)
    val read = new SumOfRows
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

  /** Keys and values of one family of a partition. */
  def rowsOf(task: Task, at: FamilyAt): Iterator[(UnsafeRow, Seq[UnsafeRow])] =
    open(from, task.operator, task.operator.stores(at.store), task.partition)
      .entries(version, task.ids(at.store), Seq(task.operator.familyAt(at)))
      .map { case (_, entry) => (entry.key.copy(), entry.values.map(_.copy()).toSeq) }

  /** The places of rows that are given in the place of stored ones. */
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
    val sums = edited.families.map(_.store).distinct.map(_ -> new SumOfRows).toMap
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

  /** The rows of a partition with the places in `targets` where they are to go. */
  def spread(
      way: Way,
      partitions: Int,
      targets: Map[(Long, Int), Int]
  ): Iterator[(Int, Row)] = {
    val Way(task, to, left) = way
    task.operator.stores.indices.iterator.flatMap { index =>
      val store = task.operator.stores(index)
      val families = store.families.filterNot { family =>
        left(StateRows(task.operator.id, store.name, family.name))
      }
      val target = to.stores.indexWhere(_.name == store.name)
      if (families.isEmpty || target < 0) Iterator.empty
      else spreadStore(way, index, families, target, partitions, targets)
    }
  }

  private def spreadStore(
      way: Way,
      index: Int,
      families: Seq[StoredFamily],
      target: Int,
      partitions: Int,
      targets: Map[(Long, Int), Int]
  ): Iterator[(Int, Row)] = {
    val Way(task, to, _) = way
    val store = task.operator.stores(index)
    val places = families
      .map(of => of.name -> PartitionOfKey.of(task.operator, store, of, partitions))
      .toMap
    val familyAt = to.stores(target).families.map(_.name).zipWithIndex.toMap
    val sum = new SumOfRows
    val source = open(from, task.operator, store, task.partition)
    // Spark takes the rows one by one; the task's end closes what is open if it fails before.
    val rows = source.entries(version, task.ids(index), families).map { case (family, entry) =>
      sum.add(family, entry)
      val place = targets(to.id -> places(family.name)(entry.key))
      // What a provider hands out it may use again for the next.
      val values = entry.values.map(_.copy().getBytes).toArray
      (place, KeyRow(target, familyAt(family.name), entry.key.copy().getBytes, values): Row)
    }
    val last = Iterator(() => (targets(to.id -> 0), SumRow(target, sum.result): Row))
    rows ++ last.map(_())
  }

  /** Writes the stores of one partition of what has come to it. */
  def fill(operator: StoredOperator, partition: Int, rows: Iterator[Row]): Iterator[Filled] = {
    val sums = operator.stores.map(_ => new SumOfRows)
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

  /** Opens the stores of a partition at once, since their rows come mixed. */
  private def fillAll(operator: StoredOperator, partition: Int)(
      fill: Seq[StateStore] => Unit
  ): Seq[StateStoreCheckpointInfo] = {
    def next(outs: Seq[StateStore], rest: Seq[StoredStore]): Seq[StateStoreCheckpointInfo] =
      rest.headOption match {
        case None =>
          fill(outs)
          Nil
        case Some(store) =>
          var behind = Seq.empty[StateStoreCheckpointInfo]
          val own = using(open(to, operator, store, partition)) { target =>
            target.write(before)(out => behind = next(outs :+ out, rest.tail))
          }
          own +: behind
      }
    next(Nil, operator.stores)
  }

  /** What a store holds that was written. */
  def sumOf(operator: StoredOperator, written: Rewritten): RowsOfStore = {
    val sum = new SumOfRows
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

  private def using[A](provider: OfflineProvider)(act: OfflineProvider => A): A =
    try act(provider)
    finally provider.close()
}
