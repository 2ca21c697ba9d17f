package io.cleancut.engine

import scala.collection.mutable

import io.cleancut.engine.memory.Bytes
import io.cleancut.format.frame.{BlockScratch, FamilySchema, FamilyTotals, FrameReader}

/**
 * Loads the chain of one source into the log of a store that references it: the rows that the store
 * takes, and no others. A store with several sources loads them one after the other into one log,
 * and then calls [[StateLog.settle]].
 *
 * Families are matched by name. Until all sources are loaded, their IDs in the log are provisional,
 * and those of a source are the IDs in its frames. Sources have no key in common, so the frames of
 * a source must not touch a row of an earlier one.
 *
 * The keys and bytes of a base are compared with its trailer, including rows that are left out. A
 * delta is compared completely as long as no row of the source was left out.
 */
final class SourceLoad(log: StateLog, selection: SourceLoad.Selection) {
  import SourceLoad._

  private val begun = log.families.map(family => family.schema.name -> family.table.mark()).toMap
  private val keysBefore = log.allKeys
  private val parts = mutable.SortedMap.empty[Int, Part]
  private var leftOut = 0L

  /** The families of the source after its frames so far, including those that are left out. */
  def families: Seq[FamilySchema] = parts.values.map(_.schema).toSeq

  /** Applies the next frame of the source. */
  def load(reader: FrameReader, scratch: BlockScratch): Unit = {
    if (reader.identity.families.nonEmpty) adopt(reader.identity.families)
    val isBase = reader.identity.parent.isEmpty
    if (isBase) reserve(reader)
    val records = new FrameRecords(reader, scratch)
    var part: Part = null
    while (records.advance()) {
      if (part == null || part.schema.id != records.family) {
        part = parts.getOrElse(
          records.family,
          throw reader.damaged(s"a record of unknown family ${records.family}")
        )
      }
      if (records.operation == RecordOperation.Merge && !part.schema.isMultiValued) {
        throw reader.damaged(s"a merge in family ${records.family}, which has no lists")
      }
      if (isBase) part.count(records)
      if (part.takes(records.key)) part.add(records, isBase, reader) else leftOut += 1
    }
    verify(reader, isBase)
  }

  /**
   * Continues after a base that itself references sources, which have been loaded into the log.
   *
   * @param families
   *   the families of this base, with the IDs in later frames of the source
   */
  def continue(sources: Seq[SourceLoad], families: Seq[FamilySchema]): Unit = {
    leftOut += sources.map(_.leftOut).sum
    adopt(families)
  }

  private def adopt(schemas: Seq[FamilySchema]): Unit = {
    val kept = schemas.map(_.id).toSet
    parts.keys.filterNot(kept).toSeq.foreach(id => parts.remove(id).foreach(drop))
    schemas.foreach { schema =>
      if (!parts.get(schema.id).exists(_.schema == schema)) {
        parts(schema.id) = new Part(schema, selection.filterOf(schema))
      }
    }
  }

  /** Undoes the rows of this source. The family remains if an earlier source has it. */
  private def drop(part: Part): Unit = if (part.isTaken) {
    begun.get(part.schema.name) match {
      case Some(mark) => part.table.rollback(mark)
      case None       => log.discard(part.schema.name)
    }
  }

  private def reserve(reader: FrameReader): Unit =
    reader.identity.familyKeys.foreach { case (id, keys) =>
      parts.get(id).filter(_.isTaken).foreach { part =>
        val expected = Math.ceil(keys * selection.share * ReservedShare).toLong
        part.table.reserve(Math.min(expected, FrameLoad.MaxReservedKeys))
      }
    }

  private def verify(reader: FrameReader, isBase: Boolean): Unit = {
    val trailer = reader.trailer
    val keys = log.allKeys - keysBefore
    if (isBase) {
      verifyTotals(reader)(_.visited)
      verifyKeys(reader, parts.valuesIterator.map(_.visited.keys).sum)
      val taken = parts.valuesIterator.map(_.taken).sum
      if (keys != taken) {
        val detail = s"a key is in it twice, or it is in another source: $keys of $taken are new"
        throw reader.damaged(detail)
      }
    } else if (leftOut == 0) {
      verifyTotals(reader)(_.added)
      verifyKeys(reader, keys)
    } else if (keys > trailer.keys) {
      throw reader.damaged(s"it has $keys selected keys of ${trailer.keys} in its trailer")
    }
    val hasLists = parts.valuesIterator.exists(_.schema.isMultiValued)
    if (isBase && !hasLists && trailer.records != trailer.keys) {
      throw reader.damaged(s"a base of ${trailer.keys} keys has ${trailer.records} records")
    }
  }

  private def verifyKeys(reader: FrameReader, keys: Long): Unit =
    if (keys != reader.trailer.keys) {
      throw reader.damaged(s"$keys keys after it, and ${reader.trailer.keys} in its trailer")
    }

  private def verifyTotals(reader: FrameReader)(totalsOf: Part => FamilyTotals): Unit =
    reader.trailer.index.totals.foreach { case (id, stated) =>
      val actual = parts.get(id).map(totalsOf)
      if (!actual.contains(stated)) {
        throw reader.damaged(
          s"family $id has ${actual.getOrElse("nothing")}, its index states $stated"
        )
      }
    }

  /** A family of the source. */
  final private class Part(val schema: FamilySchema, filter: Option[Bytes => Boolean]) {
    private val accepts = filter.orNull
    private val mark = begun.getOrElse(schema.name, Table.Mark.Empty)
    private val isLater = mark.keys > 0
    private var keys = 0L
    private var bytes = 0L

    /** Number of selected keys of the base. */
    var taken = 0L

    /** The family in the store; null if the store does not have it. */
    val table: Table = if (accepts == null) null else log.provisional(schema).table

    /** Whether the store has the family. */
    def isTaken: Boolean = table != null

    def takes(key: Bytes): Boolean = isTaken && accepts(key)

    /** Keys and bytes of the base, with rows that are left out. */
    def visited: FamilyTotals = FamilyTotals(keys, bytes)

    /** What the source has added to the table. */
    def added: FamilyTotals =
      if (isTaken) FamilyTotals(table.keys - mark.keys, table.neededBytes - mark.liveBytes)
      else FamilyTotals(0L, 0L)

    def count(record: FrameRecords): Unit = {
      if (record.operation == RecordOperation.Put) keys += 1
      bytes += Record.sizeBytes(record.key.length, record.value.length)
    }

    def add(record: FrameRecords, isBase: Boolean, reader: FrameReader): Unit = {
      // The number of keys shows whether a put of a base replaced a row.
      val isCounted = isBase && record.operation == RecordOperation.Put
      if (isLater && !isCounted && table.hasRowBefore(record.key, mark.end)) {
        throw reader.damaged("two of the sources have the same key")
      }
      record.operation match {
        case RecordOperation.Put =>
          table.put(record.key, record.value)
          if (isBase) taken += 1
        case RecordOperation.Merge => table.merge(record.key, record.value)
        case _                     =>
          table.remove(record.key)
          ()
      }
    }
  }
}

object SourceLoad {

  /**
   * The rows that a store takes from its sources.
   *
   * @param share
   *   expected share of the keys, to reserve memory
   * @param filterOf
   *   filter of a family's keys; None leaves the family out
   */
  final case class Selection(share: Double, filterOf: FamilySchema => Option[Bytes => Boolean]) {

    /** Rows that an inner selection takes, and this one takes of these. */
    def of(inner: Selection): Selection = Selection(
      share * inner.share,
      family =>
        for {
          first <- inner.filterOf(family)
          second <- filterOf(family)
        } yield key => first(key) && second(key)
    )
  }

  object Selection {

    /** All rows. */
    val All: Selection = Selection(1.0, _ => Some(_ => true))
  }

  /**
   * The families of a store with these sources: those of the first source that has any, and others
   * with the next IDs.
   */
  def union(sources: Seq[Seq[FamilySchema]]): Seq[FamilySchema] =
    sources.foldLeft(Seq.empty[FamilySchema]) { (joined, families) =>
      if (joined.isEmpty) families.sortBy(_.id)
      else {
        families.sortBy(_.id).filterNot(f => joined.exists(_.name == f.name)).foldLeft(joined) {
          (all, family) => all :+ family.copy(id = all.map(_.id).max + 1)
        }
      }
    }

  /** More than the expected share, which varies with the hashes of the keys. */
  private val ReservedShare = 1.02
}
