package io.cleancut.cuts

import java.util.concurrent.{CompletableFuture, ExecutionException}

import scala.annotation.tailrec

import io.cleancut.Recent
import io.cleancut.format.Cut

/**
 * The cuts that were read last in this process: all stores of an executor ask for the same. Each
 * run of a query reads them anew, because a checkpoint may have been deleted and begun again
 * meanwhile.
 *
 * Of those who ask for a cut at once one reads it and the others wait; who asks for another cut
 * waits for none of them.
 */
object CutCache {
  private val MaxCuts = 16

  final private case class Key(location: String, runId: String, epoch: Long)
  private type Reading = CompletableFuture[Option[Cut]]

  private val cuts = new Recent[Key, Reading](MaxCuts)

  @tailrec def read(archive: CutArchive, runId: String, epoch: Long): Option[Cut] = {
    val key = Key(archive.location, runId, epoch)
    val own = new Reading
    val other = cuts.synchronized(Option(cuts.putIfAbsent(key, own)))
    val found = other.fold(Option(fetch(archive, key, own)))(awaited)
    // Who read it failed, perhaps only because its task was killed.
    if (found.isDefined) found.get else read(archive, runId, epoch)
  }

  private def fetch(archive: CutArchive, key: Key, own: Reading): Option[Cut] =
    try {
      val found = archive.read(key.epoch)
      // It may be there the next time.
      if (found.isEmpty) forget(key, own)
      own.complete(found)
      found
    } catch {
      case e: Throwable =>
        forget(key, own)
        own.completeExceptionally(e)
        throw e
    }

  private def awaited(other: Reading): Option[Option[Cut]] =
    try Some(other.get())
    catch { case _: ExecutionException => None }

  private def forget(key: Key, own: Reading): Unit = cuts.synchronized {
    cuts.remove(key, own)
    ()
  }
}
