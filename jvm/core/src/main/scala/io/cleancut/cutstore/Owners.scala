package io.cleancut.cutstore

import com.fasterxml.jackson.databind.ObjectMapper

import io.cleancut.base.Clock
import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{CreateResult, ObjectKey, ObjectPrefix, ObjectStore, WriterToken}

/** The generations of one query: their owners, and which have ended. Thread-safe. */
final class Owners private[cutstore] (root: ObjectStore, clock: Clock) {
  import Owners.mapper

  /** The names of all owner objects and end markers. */
  def names(): Set[String] =
    root.list(ObjectPrefix(CutLayout.Owners)).map(_.key.name.stripPrefix(CutLayout.Owners)).toSet

  /**
   * Takes the next generation for this run.
   *
   * @param listed
   *   the names of all owner objects and end markers, listed before
   */
  def take(
      queryId: Option[String],
      runId: String,
      host: String,
      listed: => Set[String] = names()
  ): Taken = {
    val known = listed
    val latest = known.flatMap(CutLayout.parseOwner).maxOption.getOrElse(0L)
    var generation = latest + 1
    while (!tryTake(queryId, runId, host, generation)) generation += 1
    val before = CutLayout.endMarker(generation - 1).stripPrefix(CutLayout.Owners)
    val isAlone = generation == 1 || known(before)
    Taken(generation, isAlone, new StoreClock(this, generation, clock))
  }

  /** The last run, if it has written no end marker: it runs, or it was killed. */
  def running(): Option[Owner] = {
    val known = names()
    def hasEnded(generation: Long) =
      known(CutLayout.endMarker(generation).stripPrefix(CutLayout.Owners))
    known.flatMap(CutLayout.parseOwner).maxOption.filterNot(hasEnded(_)).flatMap(find)
  }

  /** Writes the end marker of a generation. */
  def end(generation: Long): Unit = {
    val note = mapper.createObjectNode().put("endedMs", clock.wallMs())
    val key = ObjectKey(CutLayout.endMarker(generation))
    root.create(key, mapper.writeValueAsBytes(note), WriterToken.fresh(clock))
    ()
  }

  /** The owner of a generation, if there is one. */
  def find(generation: Long): Option[Owner] =
    root.get(ObjectKey(CutLayout.owner(generation))).map(Owner.parse)

  /** The owners up to this one, the last one first, as many as [[Owner.rivalry]] requires. */
  def latest(last: Long): Seq[Owner] =
    (last until Math.max(last - Owner.Notes, 0L) by -1L).flatMap(find)

  def isTaken(generation: Long): Boolean = takenMs(generation).isDefined

  /** The time at which a generation was taken, by the clock of the object store. */
  def takenMs(generation: Long): Option[Long] =
    root.head(ObjectKey(CutLayout.owner(generation))).map(_.modifiedMs)

  private def tryTake(
      queryId: Option[String],
      runId: String,
      host: String,
      generation: Long
  ): Boolean = {
    val token = WriterToken.fresh(clock)
    val note = mapper.createObjectNode()
    note.put("generation", generation).put("queryId", queryId.orNull).put("runId", runId)
    note.put("host", host).put("startedMs", clock.wallMs()).put("token", token.text)
    val key = ObjectKey(CutLayout.owner(generation))
    root.create(key, mapper.writeValueAsBytes(note), token) == CreateResult.Created
  }
}

private object Owners {
  private val mapper = new ObjectMapper
}

/**
 * An ownership that was taken.
 *
 * @param isAlone
 *   whether the previous run has an end marker, or there was none
 * @param storeClock
 *   time of the object store, derived from the owner object
 */
final case class Taken(generation: Long, isAlone: Boolean, storeClock: StoreClock)
