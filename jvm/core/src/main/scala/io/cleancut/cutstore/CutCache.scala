package io.cleancut.cutstore

import io.cleancut.base.SharedReads

/**
 * The latest cuts that this process has read, because all stores of an executor read the same ones.
 * Each run of a query reads them again, since a checkpoint may have been deleted and created again.
 */
object CutCache {
  private val MaxBytes = 64L << 20

  final private case class Key(location: String, runId: String, epoch: Long, savepoint: String)

  private val cuts = new SharedReads[Key, StoredCut](MaxBytes, _.sizeBytes)

  def read(archive: CutArchive, runId: String, epoch: Long): Option[StoredCut] =
    cuts(Key(archive.location, runId, epoch, "")) {
      archive.cuts.open(epoch, CutParts.shared(archive))
    }

  /** The same for a savepoint, if it is of that epoch. */
  def savepoint(
      archive: CutArchive,
      runId: String,
      name: String,
      epoch: Long
  ): Option[StoredCut] = cuts(Key(archive.location, runId, epoch, name)) {
    archive.savepoints.open(name, CutParts.shared(archive)).filter(_.head.epoch == epoch)
  }
}
