package io.cleancut.engine

import io.cleancut.engine.memory.{Bytes, HashLimit, Memory}
import io.cleancut.format.frame.FamilySchema
import io.cleancut.testkit.{Blob, Frames, TestMemory}

/** Logs with a single column family, with the methods of its table. */
object OneFamily {
  val Schema: FamilySchema = FamilySchema(0, "default", "{}", "{}", "{}", isMultiValued = true)

  def newLog(
      owned: TestMemory.Owned,
      order: FamilySchema => Option[KeyOrder] = _ => None,
      limit: HashLimit = HashLimit.process
  ): StateLog =
    declared(new StateLog(Frames.Store, order, owned.memory, owned.account, limit))

  def newLog(): StateLog = declared(new StateLog(Frames.Store, _ => None))

  private def declared(log: StateLog): StateLog = {
    log.declare(Schema)
    log
  }

  implicit class AsTable(log: StateLog) {

    /** The family. A rewind to the empty store drops it, so it is declared again, as Spark does. */
    def only: StateLog.Family = log.declare(Schema)

    def contents: Table = only.table

    def put(key: Bytes, value: Bytes): Unit = contents.put(key, value)

    def merge(key: Bytes, value: Bytes): Unit = contents.merge(key, value)

    def remove(key: Bytes): Boolean = contents.remove(key)

    def find(key: Bytes, bound: Int): Long = contents.find(key, bound)

    /** The values of the key whose newest record is at this address, oldest first. */
    def values(memory: Memory, newest: Long): Vector[Blob.Blob] =
      contents.valuesAt(newest).toVector.map(Blob.valueAt(memory, _))

    def scan(bound: Int): RecordScan = contents.snapshot(bound)

    def scanRank(rank: Long, bound: Int): RecordScan =
      contents.scan(new Place(rank, 0L), if (rank == -1L) null else new Place(rank + 1, 0L), bound)
  }

  implicit class OnlyPart(version: StateLog.Version) {
    def mark: Table.Mark = version.parts.headOption.fold(Table.Mark.Empty)(_.mark)
    def view: PagedLog.View = version.parts.head.view
  }
}
