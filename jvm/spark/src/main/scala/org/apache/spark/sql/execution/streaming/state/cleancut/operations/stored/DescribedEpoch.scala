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
 * The epoch whose description of a query's operators is that of another one. Spark describes them
 * at each start of the query, and deletes descriptions from before the oldest entry of its commit
 * log, also where cuts and savepoints are older than that. What is left then is the description of
 * a later start, which is as good if it has all that the cut has.
 */
private[operations] object DescribedEpoch {

  /** The epoch itself, unless all that is left of some operator is of a later one. */
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
   * Refuses operators that are described otherwise than what a cut has of them.
   *
   * @param described
   *   the epoch whose description it is
   */
  def check(
      archive: CutArchive,
      cut: StoredCut,
      operators: Seq[StoredOperator],
      described: Long,
      refused: String => Nothing
  ): Unit = {
    def differs(what: String) = refused(
      s"Spark has deleted how its operators were described at epoch ${cut.head.epoch}, and the " +
        s"description of epoch $described differs: $what; go back to an epoch from $described on"
    )
    val first = cut.whole.stores
      .filterNot(of => Channels.isChannel(of.store))
      .groupBy(of => (of.store.operator, of.store.name))
      .map { case (name, all) => name -> all.minBy(_.store.partition) }
    val known = for (of <- operators; store <- of.stores) yield (of.id, store.name)
    (first.keySet -- known).headOption.foreach { case (operator, name) =>
      differs(s"it has no store $name of operator $operator")
    }
    (known.toSet -- first.keySet).headOption.foreach { case (operator, name) =>
      differs(s"the cut has no store $name of operator $operator")
    }
    for (operator <- operators; store <- operator.stores) {
      val families = store.families.map(of => of.name -> of.schema).toMap
      // Of a store that has others the default one is empty, and not among those described.
      val stored = familiesOf(archive, first((operator.id, store.name)))
        .filterNot(of => store.hasFamilies && of.name == StateStore.DEFAULT_COL_FAMILY_NAME)
      stored.foreach { of =>
        val isSame = families.get(of.name).exists { now =>
          isAlike(of.keySchema, now.keySchema) && isAlike(of.valueSchema, now.valueSchema)
        }
        if (!isSame) differs(s"it has no such family ${of.name} of operator ${operator.id}")
      }
    }
  }

  private def isAlike(stored: String, now: DataType) =
    DataType.equalsIgnoreNameAndCompatibleNullability(SparkKeyOrder.structOf(stored), now)

  /**
   * Those that the last frame has that says which there are; of a base that refers, its sources'.
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
      case other => throw request.damaged(s"its segment does not have it: $other")
    }
    val scratch = BlockScratch.borrow()
    try {
      val reader = new FrameReader(request, new ByteArrayInputStream(bytes), scratch)
      val own = reader.identity.families
      if (reader.isReferring)
        reader.sources().flatMap(familiesOf(archive, _)).distinctBy(_.name)
      else own
    } finally scratch.giveBack()
  }
}
