package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import org.apache.hadoop.fs.Path

import io.cleancut.format.Channels

/**
 * The parts of a checkpoint that Spark needs when it starts the query. A copy that ended early
 * lacks some of them, and an operation must not convert it.
 */
private[operations] object StoredParts {

  /**
   * @param refused
   *   ends the operation for a reason
   */
  def check(
      place: OfflinePlace,
      epoch: StoredEpoch,
      operators: Seq[StoredOperator],
      refused: String => Nothing
  ): Unit = {
    def missing(what: String): Nothing =
      refused(s"$what is missing; the checkpoint is not complete, so copy it again")
    if (!place.files.exists(new Path(place.location, NewCheckpoint.Metadata)))
      missing(s"its file ${NewCheckpoint.Metadata} with the ID of the query")
    new SourceLogs(place, epoch.offsets).missing.foreach { case (source, entry) =>
      missing(s"entry $entry of sources/$source")
    }
    val ids = operators.map(_.id).toSet
    val withState = epoch.commit.stateUniqueIds.fold(Set.empty[Long])(_.keySet.toSet) ++
      operatorsInCut(place, epoch) ++ ids.flatMap(0L to _)
    (withState -- ids).toSeq.sorted.headOption.foreach { operator =>
      missing(s"the metadata of operator $operator below state/$operator")
    }
  }

  /** IDs of the operators with state in the cut of the epoch; empty without cuts. */
  private def operatorsInCut(place: OfflinePlace, epoch: StoredEpoch): Set[Long] = {
    val cut = epoch.cut.orElse(place.cuts.flatMap { case (archive, _) =>
      archive.cuts.open(epoch.number)
    })
    cut.toSeq
      .flatMap(_.whole.stores.map(_.store))
      .filterNot(Channels.isChannel)
      .map(_.operator)
      .toSet
  }
}
