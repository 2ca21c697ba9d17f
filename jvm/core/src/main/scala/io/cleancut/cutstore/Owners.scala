package io.cleancut.cutstore

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode

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
   * @param waits
   *   whether the run waits for the end of the run before, unless that has ended (rule T1)
   * @param address
   *   of its driver, see [[Owner]]
   */
  def take(
      queryId: Option[String],
      runId: String,
      host: String,
      listed: => Set[String] = names(),
      waits: Boolean = false,
      address: Option[String] = None
  ): Taken = {
    val known = listed
    def isAlone(generation: Long) = generation == 1 ||
      known(CutLayout.endMarker(generation - 1).stripPrefix(CutLayout.Owners))
    def waitsFor(generation: Long) =
      Option.when(waits && !isAlone(generation))(generation - 1)
    val latest = known.flatMap(CutLayout.parseOwner).maxOption.getOrElse(0L)
    var generation = latest + 1
    def note(generation: Long) = {
      val node = mapper.createObjectNode()
      node.put("generation", generation).put("queryId", queryId.orNull).put("runId", runId)
      node.put("host", host).put("startedMs", clock.wallMs())
      waitsFor(generation).foreach(node.put("waitsFor", _))
      address.foreach(node.put("address", _))
      node
    }
    while (!tryTake(generation, note(generation))) generation += 1
    val storeClock = new StoreClock(this, generation, clock)
    Taken(generation, isAlone(generation), storeClock, waitsFor(generation))
  }

  /** Takes the query for a run that has waited for the run before (rule T3). */
  def takeOver(generation: Long): Unit = {
    val note = mapper.createObjectNode().put("tookMs", clock.wallMs())
    create(CutLayout.takeover(generation), note)
  }

  /** Whether a run that waits for the run before has taken the query. */
  def hasTakenOver(generation: Long): Boolean =
    root.head(ObjectKey(CutLayout.takeover(generation))).isDefined

  /** Whether a run has written its end marker. */
  def hasEnded(generation: Long): Boolean =
    root.head(ObjectKey(CutLayout.endMarker(generation))).isDefined

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
    create(CutLayout.endMarker(generation), note)
  }

  private def create(name: String, note: ObjectNode): Unit = {
    root.create(ObjectKey(name), mapper.writeValueAsBytes(note), WriterToken.fresh(clock))
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

  private def tryTake(generation: Long, note: ObjectNode): Boolean = {
    val token = WriterToken.fresh(clock)
    note.put("token", token.text)
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
 * @param waitsFor
 *   the generation whose end the run waits for
 */
final case class Taken(
    generation: Long,
    isAlone: Boolean,
    storeClock: StoreClock,
    waitsFor: Option[Long] = None
)
