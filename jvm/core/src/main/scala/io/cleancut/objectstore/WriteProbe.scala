package io.cleancut.objectstore

import java.util.Arrays

import scala.util.control.NonFatal

import io.cleancut.base.Clock
import io.cleancut.conf.Keys
import io.cleancut.error.{CleancutException, ErrorKind, Errors}

/**
 * Tests all properties of a store that a query relies on, before the query uses it. It detects
 * stores that would otherwise cause corruption at the next restart, or two drivers that both
 * commit: a store that stores the framing of an upload as content, ignores the condition of a
 * create or the range of a read, has a lagging listing, loses metadata, or checks first and writes
 * then in a create.
 *
 * Makes eleven requests and several for each race ([[ObjectStore.probeRaces]]), and removes its
 * objects unless the store or this process fails in between.
 */
final class WriteProbe(store: ObjectStore, clock: Clock) {
  private val directory = s"${WriteProbe.Directory}${WriterToken.fresh(clock)}"
  private val plain = ObjectKey(s"$directory/plain")
  private val exclusive = ObjectKey(s"$directory/exclusive")
  private val races = (1 to store.probeRaces).map(n => ObjectKey(s"$directory/race-$n"))

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_UNSAFE, or an error of the store
   */
  def run(): Unit =
    try {
      checkPut()
      checkRange()
      checkCreate()
      checkList()
      checkRaces()
      checkDelete()
    } catch {
      case NonFatal(e) =>
        try store.delete(all)
        catch { case NonFatal(again) => e.addSuppressed(again) }
        throw e
    }

  private def checkPut(): Unit = {
    store.put(plain, body)
    val difference =
      try Some(store.get(plain)).filterNot(_.exists(Arrays.equals(_, body))).map(described)
      catch { case e: CleancutException if e.kind == ErrorKind.Restore => Some("others") }
    difference.foreach { description =>
      unfit(s"after a put of ${body.length} bytes it returns $description", Corrupting)
    }
  }

  private def checkRange(): Unit = {
    val offset = body.length / 3
    val length = body.length / 7
    store.getRange(plain, offset.toLong, length) match {
      case RangeResult.Found(bytes)
          if Arrays.equals(bytes, Arrays.copyOfRange(body, offset, offset + length)) =>
        ()
      case _ => unfit("a range read returns wrong bytes", Corrupting)
    }
  }

  private def checkCreate(): Unit = {
    val token = WriterToken.fresh(clock)
    if (store.create(exclusive, body, token) != CreateResult.Created)
      unfit("it refuses to create an object that does not exist", Unconditional)
    val other = body.reverse
    val existing = store.create(exclusive, other, WriterToken.fresh(clock)) match {
      case CreateResult.Created        => unfit(twice("it creates an object twice"), Unconditional)
      case CreateResult.Exists(writer) => writer
    }
    if (store.keepsTokens && !existing.contains(token))
      unfit("the metadata of an object is not returned as it was sent", Corrupting)
    if (!store.get(exclusive).exists(Arrays.equals(_, body)))
      unfit("a refused create has changed the object", Unconditional)
  }

  private def checkList(): Unit = {
    val listed = store.list(ObjectPrefix(s"$directory/")).map(_.key).toSet
    if (listed != Set(plain, exclusive))
      unfit(s"a listing returns ${listed.size} of 2 objects that were just written", Lagging)
  }

  private def checkRaces(): Unit = {
    val race = new CreateRace(store, clock)
    races.foreach { key =>
      val winners = race.winnersOf(key)
      if (winners != 1)
        unfit(twice(s"it lets $winners writers create one object at the same time"), Unconditional)
    }
  }

  private def checkDelete(): Unit = {
    store.delete(all)
    if (store.head(plain).nonEmpty || store.head(exclusive).nonEmpty)
      unfit("it still returns objects that were just deleted", Lagging)
  }

  private def twice(finding: String) = s"$finding, so that two drivers could both commit"

  private def unfit(finding: String, advice: String): Nothing =
    throw Errors.objectStoreUnsafe(store.location, finding, advice)

  private def described(body: Option[Array[Byte]]): String =
    body.fold("none")(bytes => s"${bytes.length} bytes that differ")

  private def all: Seq[ObjectKey] = Seq(plain, exclusive) ++ races

  /** Random, so that remains of an earlier probe are not mistaken for this one. */
  private lazy val body: Array[Byte] = clock.randomBytes(WriteProbe.BodyBytes)

  private val Corrupting =
    s"Set ${Keys.S3Dialect.name} to the dialect of the store, and check the proxies between " +
      s"Spark and ${Keys.S3Endpoint.name}."

  private val Unconditional =
    "Use a store that supports If-None-Match on PUT, or a file system whose rename refuses an " +
      s"existing target; ${Keys.S3Endpoint.name} sets the store."

  private val Lagging =
    s"Use a store with strong consistency; ${Keys.S3Endpoint.name} sets the store."
}

object WriteProbe {
  private val Directory = "probe-"

  /** More than one chunk of an SDK that frames uploads. */
  private val BodyBytes = 150000

  /** Whether a name next to those of a checkpoint is that of a probe, which may be unfinished. */
  def isName(name: String): Boolean = name.startsWith(Directory)

  /**
   * Deletes the objects of unfinished probes.
   *
   * @param beforeMs
   *   only objects that are older, by the store's clock, in milliseconds since 1970-01-01 UTC
   * @return
   *   number of deleted objects
   */
  def dropLeftBehind(store: ObjectStore, beforeMs: Long): Int = {
    val left = store.listLevel(ObjectPrefix.All).collect {
      case Listed.Below(prefix) if isName(prefix.name) => store.list(prefix)
    }
    val old = left.flatten.filter(_.modifiedMs < beforeMs).map(_.key).toSeq
    if (old.nonEmpty) store.delete(old)
    old.size
  }
}
