package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import io.cleancut.base.Clock
import io.cleancut.cutstore.CutArchive
import io.cleancut.format.StoreLayout
import io.cleancut.objectstore.{Listed, ObjectPrefix, ObjectStore, RootedStore}

/**
 * The directories of a query's state partitions, `state/<operator>/<partition>`, which Spark's
 * state reader uses as the list of partitions. Spark's providers have files in each. Our files are
 * elsewhere, and a bucket has no empty directories, so these are derived.
 */
object StatePartitions {
  private val OperatorDirectory = "((?:.*/)?)state/(\\d{1,18})/".r

  /**
   * The partition directories to show below a prefix; empty if it is not the prefix of an operator.
   */
  def below(store: ObjectStore, prefix: ObjectPrefix): Set[String] = prefix.name match {
    case OperatorDirectory(checkpoint, operator) =>
      partitions(store, checkpoint, operator.toLong).map(_.toString)
    case _ => Set.empty
  }

  /**
   * @param checkpoint
   *   the checkpoint location in the bucket, empty or with a trailing `/`
   */
  private def partitions(store: ObjectStore, checkpoint: String, operator: Long): Set[Int] = {
    val root = s"$checkpoint${StoreLayout.RootName}/"
    val archive = new CutArchive(new RootedStore(store, root), Clock.System)
    archive.cuts
      .last()
      .fold(fromStores(store, s"$root${StoreLayout.operatorDirectory(operator)}/")) { last =>
        last.whole.stores.map(_.store).filter(_.operator == operator).map(_.partition).toSet
      }
  }

  /** Partitions of per-store files, if no epoch was committed by a cut. */
  private def fromStores(store: ObjectStore, directory: String): Set[Int] = {
    val prefix = ObjectPrefix(directory)
    store
      .listLevel(prefix)
      .collect { case Listed.Below(below) => below.lastSegment.toIntOption }
      .flatten
      .toSet
  }
}
