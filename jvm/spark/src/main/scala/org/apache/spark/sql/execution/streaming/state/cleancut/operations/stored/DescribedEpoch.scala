package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import java.io.ByteArrayInputStream

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path, PathFilter}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.{OperatorStateMetadataV2, StateStore}
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.SparkKeyOrder
import org.apache.spark.sql.types.DataType

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.cutstore.{CutArchive, StoredCut}
import io.cleancut.format.{Channels, FrameKind, FramePlace, StoreCut}
import io.cleancut.format.frame.{BlockScratch, FamilySchema, FrameReader, FrameRequest}
import io.cleancut.objectstore.{ObjectKey, RangeResult}

/**
 * Finds the epoch whose operator descriptions apply to another epoch. Spark writes descriptions at
 * each start of the query, and deletes those from before the oldest entry of its commit log, even
 * if cuts and savepoints are older. The remaining description of a later start is equivalent if it
 * matches the contents of the cut.
 */
private[operations] object DescribedEpoch {

  /** The epoch itself, unless an operator has only descriptions of later epochs. */
  def of(location: String, epoch: Long, hadoopConf: Configuration): Long = {
    val state = new Path(StoredQuery.stateRoot(location))
    val files = CheckpointFileManager.create(state, hadoopConf)
    val isNumber: PathFilter = (path: Path) => path.getName.toLongOption.isDefined
    def numbers(directory: Path): Seq[Path] =
      if (files.exists(directory)) files.list(directory, isNumber).map(_.getPath).toSeq else Nil
    val first = numbers(state).flatMap { operator =>
      numbers(OperatorStateMetadataV2.metadataDirPath(operator)).map(_.getName.toLong).minOption
    }
    (first :+ epoch).max
  }

  /**
   * Refuses operator descriptions that differ from the contents of a cut.
   *
   * @param described
   *   epoch of the descriptions
   */
  def check(
      archive: CutArchive,
      cut: StoredCut,
      operators: Seq[StoredOperator],
      described: Long,
      refused: String => Nothing
  ): Unit = {
    def differs(what: String) = refused(
      s"Spark has deleted the operator descriptions of epoch ${cut.head.epoch}, and the " +
        s"description of epoch $described differs: $what; roll back to epoch $described or later"
    )
    val first = cut.whole.stores
      .filterNot(chain => Channels.isChannel(chain.store))
      .groupBy(chain => (chain.store.operator, chain.store.name))
      .map { case (name, all) => name -> all.minBy(_.store.partition) }
    val known =
      for (operator <- operators; store <- operator.stores) yield (operator.id, store.name)
    (first.keySet -- known).headOption.foreach { case (operator, name) =>
      differs(s"it has no store $name of operator $operator")
    }
    (known.toSet -- first.keySet).headOption.foreach { case (operator, name) =>
      differs(s"the cut has no store $name of operator $operator")
    }
    for (operator <- operators; store <- operator.stores) {
      val families = store.families.map(family => family.name -> family.schema).toMap
      // If a store has other families, its default family is empty and not described.
      val stored = familiesOf(archive, first((operator.id, store.name)))
        .filterNot(family => store.hasFamilies && family.name == StateStore.DEFAULT_COL_FAMILY_NAME)
      stored.foreach { family =>
        val isSame = families.get(family.name).exists { now =>
          isAlike(family.keySchema, now.keySchema) && isAlike(family.valueSchema, now.valueSchema)
        }
        if (!isSame)
          differs(
            s"family ${family.name} of operator ${operator.id} is missing or has another schema"
          )
      }
    }
  }

  private def isAlike(stored: String, now: DataType) =
    DataType.equalsIgnoreNameAndCompatibleNullability(SparkKeyOrder.structOf(stored), now)

  /**
   * The families in the last frame that lists them; for a base that references others, the families
   * of its sources.
   */
  private def familiesOf(archive: CutArchive, chain: StoreCut): Seq[FamilySchema] =
    chain.frames.reverseIterator
      .map { case (kind, version, at) => familiesIn(archive, chain.store, kind, version, at) }
      .find(_.nonEmpty)
      .getOrElse(Nil)

  private def familiesIn(
      archive: CutArchive,
      store: StoreId,
      kind: FrameKind,
      version: StateVersion,
      at: FramePlace
  ): Seq[FamilySchema] = {
    val request = FrameRequest(archive.pathOf(at.segment), store, version, kind)
    val bytes = archive.store.getRange(ObjectKey(at.segment), at.offset, at.length.toInt) match {
      case RangeResult.Found(bytes) => bytes
      case other => throw request.damaged(s"the segment does not contain it: $other")
    }
    val scratch = BlockScratch.borrow()
    try {
      val reader = new FrameReader(request, new ByteArrayInputStream(bytes), scratch)
      val listed = reader.identity.families
      if (reader.isReferring)
        reader.sources().flatMap(familiesOf(archive, _)).distinctBy(_.name)
      else listed
    } finally scratch.giveBack()
  }
}
