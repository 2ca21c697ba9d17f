package io.cleancut.cutstore

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.atomic.LongAdder

import com.fasterxml.jackson.databind.ObjectMapper

import io.cleancut.base.{Clock, StateVersion}
import io.cleancut.error.Errors
import io.cleancut.objectstore.{
  CreateResult,
  ObjectInfo,
  ObjectKey,
  ObjectPrefix,
  ObjectRange,
  ObjectStore,
  RangeResult,
  WriterToken
}
import io.cleancut.format._

/**
 * The cuts, owners, pages and segments of one query on its store.
 *
 * @param root
 *   the query's own directory, `<checkpointLocation>/cleancut`
 */
final class CutArchive(root: ObjectStore, clock: Clock) {
  import CutArchive._

  private val cutBytes = new LongAdder
  private val written = new LongAdder

  def location: String = root.location

  /** Where people find an object of it. */
  def pathOf(name: String): String = s"$location/$name"

  def store: ObjectStore = root

  def epochs(): Seq[Long] = listed().epochs

  /** Lists all cuts and seals. */
  def listed(): CutsListed = CutsListed.of(root.list(ObjectPrefix(CutLayout.Cuts)).toVector)

  /** Lists the cuts and seals of the epochs from `from` to before `until`. */
  def listed(from: Long, until: Long): CutsListed =
    CutsListed.of(inRange(CutLayout.Cuts, from, until).toVector)

  /** Without a request where there is no epoch. */
  private def inRange(directory: String, from: Long, until: Long): Iterator[ObjectInfo] =
    if (until <= Math.max(from, 0L)) Iterator.empty
    else root.listRange(rangeOf(directory, from, until))

  /** The cut of the first epoch from this one on that has one. */
  def openFrom(epoch: Long): Option[StoredCut] = open(epoch).orElse {
    val found = root.listRange(rangeOf(CutLayout.Cuts, epoch + 1, Long.MaxValue))
    found.flatMap(info => CutsListed.epochOf(info)).nextOption().flatMap(open(_))
  }

  private def rangeOf(directory: String, from: Long, until: Long): ObjectRange = {
    def limit(epoch: Long) = directory + NameDigits.padded(Math.max(epoch, 0L))
    ObjectRange(ObjectPrefix(directory), limit(from), limit(until))
  }

  /** The cut of an epoch, whole. */
  def read(epoch: Long): Option[Cut] = open(epoch).map(_.whole)

  /** The cut of an epoch, whose chains are read when they are asked for. */
  def open(epoch: Long, parts: CutParts = CutParts.read(this)): Option[StoredCut] =
    head(CutLayout.cut(epoch), epoch).map(stored(CutLayout.cut(epoch), _, parts))

  /** All of the cut of an epoch but its chains. */
  def head(epoch: Long): Option[Cut] = head(CutLayout.cut(epoch), epoch)

  /** The cut of the last epoch that has one. */
  def last(): Option[StoredCut] = epochs().lastOption.flatMap(open(_))

  /** The size of all cuts and seals, and of what these name, that were read, in bytes. */
  def cutBytesRead: Long = cutBytes.sum

  /** Bytes of the cuts, seals and pages that were written through this archive. */
  def bytesWritten: Long = written.sum

  /** Writes a cut if its epoch has none; whether this one is the epoch's. */
  def create(cut: Cut): Boolean = create(CutLayout.cut(cut.epoch), cut)

  /** Writes the seal that a run has of an epoch if it has none; whether it is this one. */
  def seal(seal: Cut): Boolean =
    create(CutLayout.seal(SealName(seal.epoch, seal.run.generation)), seal)

  /**
   * A seal with all its chains.
   *
   * @param before
   *   the cut before its epoch, with all its chains
   */
  def readSeal(name: SealName, before: Option[Cut]): Option[Cut] = {
    val seal = CutLayout.seal(name)
    head(seal, name.epoch).map(stored(seal, _, CutParts.read(this)).after(before))
  }

  /**
   * Keeps the cut of an epoch under a name, which no other may have.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_SAVEPOINT_INVALID
   */
  def pin(name: String, epoch: Long): Unit = {
    def invalid(detail: String) = throw Errors.savepointInvalid(name, location, detail)
    if (!CutLayout.isSavepoint(name))
      invalid("a name has 1 to 64 letters, digits, dashes and underscores")
    val bytes = root.get(ObjectKey(CutLayout.cut(epoch)))
    val key = ObjectKey(CutLayout.savepoint(name))
    bytes match {
      case None        => invalid(s"there is no cut of epoch $epoch")
      case Some(bytes) =>
        val result = root.create(key, bytes, WriterToken.fresh(clock))
        if (result != CreateResult.Created) invalid("a savepoint has this name already")
        // A sweep that has not seen the savepoint had deleted the cut before it looked.
        if (root.head(ObjectKey(CutLayout.cut(epoch))).isEmpty) {
          root.delete(Seq(key))
          invalid(s"the cut of epoch $epoch was swept meanwhile")
        }
    }
  }

  /** Gives a savepoint up; whether there was one. */
  def unpin(name: String): Boolean = CutLayout.isSavepoint(name) && {
    val key = ObjectKey(CutLayout.savepoint(name))
    val isThere = root.head(key).isDefined
    if (isThere) root.delete(Seq(key))
    isThere
  }

  /** The cuts that are kept under a name, by name. */
  def pinned(): Map[String, StoredCut] =
    savepointInfos().flatMap { case (name, _) => savepoint(name).map(name -> _) }.toMap

  /** Every savepoint, by name. */
  def savepointInfos(): Seq[(String, ObjectInfo)] = root
    .list(ObjectPrefix(CutLayout.Savepoints))
    .flatMap { info =>
      val name = info.key.name.stripPrefix(CutLayout.Savepoints)
      CutLayout.parseSavepoint(name).map(_ -> info)
    }
    .toSeq

  /** The cut that is kept under this name. */
  def savepoint(name: String, parts: CutParts = CutParts.read(this)): Option[StoredCut] = {
    val object_ = CutLayout.savepoint(name)
    root.get(ObjectKey(object_)).map { bytes =>
      stored(object_, Cut.parse(pathOf(object_), bytes), parts)
    }
  }

  /** The epochs that sinks had published before the first cut. */
  def uncutSinks(): SinkEpochs = {
    val name = StoredSinkEpochs.Name
    root.get(ObjectKey(name)).fold(SinkEpochs.Empty)(StoredSinkEpochs.parse(pathOf(name), _).sinks)
  }

  /** The checkpoints that this one continues. */
  def lineage(): Lineage =
    root.get(ObjectKey(Lineage.Name)).fold(Lineage.Empty)(Lineage.parse(pathOf(Lineage.Name), _))

  /** What others have noted who looked at the query: two listings, and a read for each copy. */
  def notes(): Notes = {
    val replicas = names(CutLayout.Replicas).flatMap { name =>
      root.get(ObjectKey(s"${CutLayout.Replicas}$name")).map(new String(_, UTF_8))
    }
    Notes(names(CutLayout.Proofs), replicas)
  }

  /**
   * Creates `format.json`, before an object that needs this format version. A marker of a lower
   * version is replaced by one of the highest version, whatever version is needed: a write that
   * takes effect late then never lowers the version.
   */
  def mark(queryId: Option[String], version: Int = FormatNote.Roots): Unit = {
    val key = ObjectKey(StoreLayout.FormatObject)
    val known = root.get(key).map(FormatNote.parse)
    known match {
      case None =>
        val marker = FormatNote(queryId, version).toJson
        val result = root.create(key, marker, WriterToken.fresh(clock))
        // Another process may have created one of a lower version.
        if (result != CreateResult.Created) mark(queryId, version)
      case Some(marker) if isLower(marker, version) => raise(queryId)
      case Some(Right(_))                           => ()
      case Some(Left(found))                        =>
        throw Errors.formatUnknown(pathOf(key.name), found, FormatNote.Supported)
    }
  }

  private def isLower(marker: Either[String, FormatNote], version: Int): Boolean =
    marker.exists(_.version < version)

  private def raise(queryId: Option[String]): Unit =
    root.put(ObjectKey(StoreLayout.FormatObject), FormatNote(queryId, FormatNote.Latest).toJson)

  /**
   * Writes pages of these chains.
   *
   * @param epoch
   *   after which they are complete
   * @param chains
   *   of each page, ascending by their stores
   */
  def writePages(epoch: Long, chains: Seq[Seq[StoreCut]]): Seq[PageRef] = chains.map { of =>
    val bytes = CutPage.encode(of)
    val name = CutLayout.page(epoch, StateVersion.newId(clock))
    // Nobody else has this name, so that a plain write, which may be repeated, is enough.
    root.put(ObjectKey(name), bytes)
    written.add(bytes.length.toLong)
    PageRef(name, bytes.length.toLong, CutParts.crcOf(bytes), of.size, of.head.store)
  }

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_DAMAGED, also where it is gone
   */
  def page(ref: PageRef): CutPage = {
    val path = pathOf(ref.name)
    def damaged(detail: String) = throw Errors.cutDamaged(path, detail)
    val bytes = root.get(ObjectKey(ref.name)).getOrElse(damaged(Gone))
    cutBytes.add(bytes.length.toLong)
    CutParts.page(path, ref, bytes)
  }

  /**
   * The frames of a segment by its table, those of channels aside.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_DAMAGED, also where it is gone
   */
  def table(part: WindowPart): PackedFrames = {
    val path = pathOf(part.segment)
    def damaged(detail: String) = throw Errors.cutDamaged(path, detail)
    val end = part.end
    if (end.footerBytes <= 0 || end.footerBytes > end.length) {
      damaged(s"the cut names ${end.footerBytes} of its ${end.length} bytes")
    }
    val offset = end.length - end.footerBytes
    val footer = root.getRange(ObjectKey(part.segment), offset, end.footerBytes) match {
      case RangeResult.Found(bytes) => bytes
      case RangeResult.Missing      => damaged(Gone)
      case other                    => damaged(s"it has not the bytes that the cut names: $other")
    }
    cutBytes.add(footer.length.toLong)
    CutParts.table(path, part, footer)
  }

  /** Its frames by a segment's table; none where it is gone. */
  def framesIn(segment: String): Seq[PlacedFrame] =
    root.head(ObjectKey(segment)).flatMap(table).fold(Seq.empty[PlacedFrame])(_._2)

  /** Takes the next generation for this run. */
  def own(queryId: Option[String], runId: String, host: String): Taken = {
    val known = names(CutLayout.Owners)
    val latest = known.flatMap(CutLayout.parseOwner).maxOption.getOrElse(0L)
    var generation = latest + 1
    while (!tryOwn(queryId, runId, host, generation)) generation += 1
    val before = CutLayout.ended(generation - 1).stripPrefix(CutLayout.Owners)
    val isAlone = generation == 1 || known.contains(before)
    Taken(generation, isAlone, new StoreClock(this, generation, clock))
  }

  /** Says that the run of a generation does nothing any more. */
  def ended(generation: Long): Unit = {
    val note = mapper.createObjectNode().put("endedMs", clock.wallMs())
    val key = ObjectKey(CutLayout.ended(generation))
    root.create(key, mapper.writeValueAsBytes(note), WriterToken.fresh(clock))
    ()
  }

  /** The note of a generation's owner, if there is one. */
  def owner(generation: Long): Option[Owner] =
    root.get(ObjectKey(CutLayout.owner(generation))).map(Owner.parse)

  /** The owners up to this one, the last one first, as far as they matter to each other. */
  def owners(last: Long): Seq[Owner] =
    (last until Math.max(last - Owner.Notes, 0L) by -1L).flatMap(owner)

  def isOwned(generation: Long): Boolean = ownedMs(generation).isDefined

  /** The time at which a generation was taken, by the clock of the object store. */
  def ownedMs(generation: Long): Option[Long] =
    root.head(ObjectKey(CutLayout.owner(generation))).map(_.modifiedMs)

  /**
   * The tables of the segments of an epoch, of the latest run first. One that another owner of the
   * query sweeps meanwhile is not among them.
   *
   * @param known
   *   names of those that are not wanted, nor read
   */
  def segmentsOf(
      epoch: Long,
      known: collection.Set[String] = Set.empty
  ): Seq[(SegmentIdentity, Seq[PlacedFrame])] =
    root
      .list(ObjectPrefix(CutLayout.segmentsOf(epoch)))
      .filter(info => CutLayout.parseSegment(info.key.name).isDefined && !known(info.key.name))
      .toSeq
      .sortBy(_.key.name)
      .flatMap(table)
      .sortBy(-_._1.generation)

  /** Every page, with the epoch in its name. */
  def pages(): Seq[(Long, ObjectKey)] = keysOf(pageInfos())

  /** The pages of the epochs from `from` to before `until`, with their epochs. */
  def pageInfos(from: Long = 0L, until: Long = Long.MaxValue): Seq[(Long, ObjectInfo)] =
    partsIn(CutLayout.Pages, from, until)(CutLayout.parsePage)

  /** Every segment, with the epoch in its name. */
  def segments(): Seq[(Long, ObjectKey)] = keysOf(segmentInfos())

  /** The segments of the epochs from `from` to before `until`, with their epochs. */
  def segmentInfos(from: Long = 0L, until: Long = Long.MaxValue): Seq[(Long, ObjectInfo)] =
    partsIn(CutLayout.Segments, from, until)(CutLayout.parseSegment)

  private def partsIn(directory: String, from: Long, until: Long)(
      epochOf: String => Option[Long]
  ): Seq[(Long, ObjectInfo)] = {
    val isAll = from <= 0L && until == Long.MaxValue
    val found =
      if (isAll) root.list(ObjectPrefix(directory))
      else inRange(directory, from, until)
    found.flatMap(info => epochOf(info.key.name).map(_ -> info)).toSeq
  }

  private def keysOf(of: Seq[(Long, ObjectInfo)]) = of.map { case (epoch, info) =>
    epoch -> info.key
  }

  /** Frames that lie in files of their stores, as they do before the first cut. */
  def storeFiles(): Seq[ObjectKey] =
    root.list(ObjectPrefix(StoreLayout.Stores)).map(_.key).toSeq

  def delete(keys: Seq[ObjectKey]): Unit = if (keys.nonEmpty) root.delete(keys)

  private def create(name: String, cut: Cut): Boolean = {
    val bytes = cut.toBytes
    val isOwn = root.create(ObjectKey(name), bytes, WriterToken(cut.token)) match {
      case CreateResult.Created   => true
      case CreateResult.Exists(_) => head(name, cut.epoch).exists(_.token == cut.token)
    }
    if (isOwn) written.add(bytes.length.toLong)
    isOwn
  }

  private def stored(name: String, head: Cut, parts: CutParts) =
    new StoredCut(head, pathOf(name), parts)

  private def head(name: String, epoch: Long): Option[Cut] =
    root.get(ObjectKey(name)).map { bytes =>
      cutBytes.add(bytes.length.toLong)
      Cut.parse(pathOf(name), epoch, bytes)
    }

  /** None if the object is not there any more. */
  private def table(info: ObjectInfo): Option[(SegmentIdentity, Seq[PlacedFrame])] = {
    val path = pathOf(info.key.name)
    val guess = Math.min(TailBytes, info.sizeBytes).toInt
    for {
      head <- range(info, 0L, Math.min(HeadBytes, info.sizeBytes).toInt)
      tail <- range(info, info.sizeBytes - guess, guess)
      needed = Segment.footerBytes(path, tail, info.sizeBytes)
      footer <-
        if (needed <= tail.length) Some(tail.takeRight(needed))
        else range(info, info.sizeBytes - needed, needed)
    } yield Segment.parse(info.key.name, head, footer)
  }

  private def range(info: ObjectInfo, offset: Long, length: Int): Option[Array[Byte]] =
    root.getRange(info.key, offset, length) match {
      case RangeResult.Found(bytes) => Some(bytes)
      case RangeResult.Missing      => None
      case other                    =>
        throw new IllegalStateException(s"${info.key} changed while it was read: $other")
    }

  private def tryOwn(
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

  private def names(prefix: String): Seq[String] =
    root.list(ObjectPrefix(prefix)).map(_.key.name.stripPrefix(prefix)).toSeq
}

/**
 * An ownership that was taken.
 *
 * @param isAlone
 *   whether the run before has said that it has ended, or there was none
 * @param storeClock
 *   the object store's time, as the owner derives it from its own object
 */
final case class Taken(generation: Long, isAlone: Boolean, storeClock: StoreClock)

/**
 * What others have noted beside a query; nothing here depends on it.
 *
 * @param proofs
 *   the names of proofs, below their directory
 * @param replicas
 *   a JSON object for each copy that passes keep up
 */
final case class Notes(proofs: Seq[String], replicas: Seq[String]) {

  /** The last proof that the query can be restored. */
  def proven: Option[Proof] = proofs
    .flatMap(name => CutLayout.parseProof(s"${CutLayout.Proofs}$name"))
    .maxByOption(of => (of.epoch, of.provenMs))
}

/**
 * Cuts and seals as a listing has them.
 *
 * @param cutInfos
 *   by epoch, ascending
 */
final case class CutsListed(
    cutInfos: Seq[(Long, ObjectInfo)],
    sealInfos: Seq[(SealName, ObjectInfo)]
) {

  def epochs: Seq[Long] = cutInfos.map(_._1)

  def seals: Seq[SealName] = sealInfos.map(_._1)

  /** Of several runs the latest has looked for those of the others, and knows best. */
  def sealOf(epoch: Long): Option[SealName] =
    seals.filter(_.epoch == epoch).maxByOption(_.generation)

  /** Bytes of the cuts and seals of the epochs from this one on. */
  def sizeSince(epoch: Long): Long =
    cutInfos.filter(_._1 >= epoch).map(_._2.sizeBytes).sum +
      sealInfos.filter(_._1.epoch >= epoch).map(_._2.sizeBytes).sum
}

object CutsListed {
  private[cutstore] def epochOf(info: ObjectInfo): Option[Long] =
    CutLayout.parseCut(info.key.name.stripPrefix(CutLayout.Cuts))

  private[cutstore] def of(infos: Seq[ObjectInfo]): CutsListed = {
    def seal(info: ObjectInfo) =
      CutLayout.parseSeal(info.key.name.stripPrefix(CutLayout.Cuts))
    CutsListed(
      infos.flatMap(info => epochOf(info).map(_ -> info)).sortBy(_._1),
      infos.flatMap(info => seal(info).map(_ -> info))
    )
  }
}

object CutArchive {
  private val OfDriver = s"/${Place.Driver}-"

  /** Whether a driver wrote a segment. */
  private[cutstore] def isOfDriver(segment: String): Boolean =
    segment.contains(OfDriver) || FrameMerge.isMerged(segment)
  private val Gone = "a cut names it, and it is gone"
  private val HeadBytes = 64L << 10
  private val TailBytes = 256L << 10
  private val mapper = new ObjectMapper
}
