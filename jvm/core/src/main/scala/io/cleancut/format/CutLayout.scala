package io.cleancut.format

import io.cleancut.base.StateVersion

/**
 * The identity of a seal.
 *
 * @param generation
 *   generation of the run that wrote it
 */
final case class SealName(epoch: Long, generation: Long)

/** Builds and parses the names of all objects of cuts, below the root. */
object CutLayout {
  import NameDigits.padded

  private val CutName = """(\d{20})\.cut""".r
  private val SealForm = """(\d{20})\.(\d{20})\.sealed""".r
  private val SegmentName = """segments/(\d{20})/([A-Za-z0-9_-]+)-([0-9a-f]{32})\.seg""".r
  private val PageName = """pages/(\d{20})/([0-9a-f]{32})\.page""".r
  private val SavepointName = """([A-Za-z0-9_-]{1,64})\.cut""".r
  private val ProofName = """proofs/(\d{20})-(\d{20})\.json""".r
  private val OwnerName = """(\d{20})\.json""".r

  val Cuts: String = "cuts/"
  val Segments: String = "segments/"
  val Pages: String = "pages/"
  val Owners: String = "owners/"
  val Savepoints: String = "savepoints/"

  /** Markers of restore tests; their names have the result. */
  val Proofs: String = "proofs/"

  /** Markers of replicas. */
  val Replicas: String = "replicas/"

  def cut(epoch: Long): String = s"$Cuts${padded(epoch)}.cut"

  /** The epoch of a name below [[Cuts]]; None for foreign objects. */
  def parseCut(name: String): Option[Long] = name match {
    case CutName(epoch) => epoch.toLongOption
    case _              => None
  }

  /** The seals of an epoch of all runs, for messages. */
  def sealsOf(epoch: Long): String = s"$Cuts${padded(epoch)}*.sealed"

  def seal(name: SealName): String =
    s"$Cuts${padded(name.epoch)}.${padded(name.generation)}.sealed"

  /** The identity of a seal, by its name below [[Cuts]]; None for other objects. */
  def parseSeal(name: String): Option[SealName] = name match {
    case SealForm(epoch, generation) =>
      for {
        ofEpoch <- epoch.toLongOption
        ofRun <- generation.toLongOption
      } yield SealName(ofEpoch, ofRun)
    case _ => None
  }

  def isSavepoint(name: String): Boolean = SavepointName.matches(s"$name.cut")

  /**
   * @param name
   *   1 to 64 letters, digits, `_` and `-`
   */
  def savepoint(name: String): String = {
    require(isSavepoint(name), s"not the name of a savepoint: '$name'")
    s"$Savepoints$name.cut"
  }

  /** The name of a savepoint, by the name of its object below [[Savepoints]]. */
  def parseSavepoint(name: String): Option[String] = name match {
    case SavepointName(plain) => Some(plain)
    case _                    => None
  }

  /**
   * @param writer
   *   `driver` or an executor ID
   */
  def segment(epoch: Long, writer: String, id: String): String = {
    require(StateVersion.isId(id), s"not an id: $id")
    s"$Segments${padded(epoch)}/${plain(writer)}-$id.seg"
  }

  /** Whether a segment of this identity may have the name. */
  def isSegmentOf(name: String, identity: SegmentIdentity): Boolean = name match {
    case SegmentName(epoch, writer, _) =>
      epoch.toLongOption.contains(identity.epoch) && writer == plain(identity.writer)
    case _ => false
  }

  def segmentsOf(epoch: Long): String = s"$Segments${padded(epoch)}/"

  /** The epoch of a segment, by its name below the root. */
  def parseSegment(name: String): Option[Long] = name match {
    case SegmentName(epoch, _, _) => epoch.toLongOption
    case _                        => None
  }

  def page(epoch: Long, id: String): String = {
    require(StateVersion.isId(id), s"not an id: $id")
    s"$Pages${padded(epoch)}/$id.page"
  }

  /** The epoch of a page, by its name below the root. */
  def parsePage(name: String): Option[Long] = name match {
    case PageName(epoch, _) => epoch.toLongOption
    case _                  => None
  }

  def owner(generation: Long): String = s"$Owners${padded(generation)}.json"

  /** End marker of the run of a generation. */
  def endMarker(generation: Long): String = s"$Owners${padded(generation)}.ended"

  /** The object by which a run takes the query that has waited for the run before. */
  def takeover(generation: Long): String = s"$Owners${padded(generation)}.took"

  def parseOwner(name: String): Option[Long] = name match {
    case OwnerName(generation) => generation.toLongOption
    case _                     => None
  }

  /** A restore test marker, by its name below the root. */
  def parseProof(name: String): Option[Proof] = name match {
    case ProofName(epoch, provenMs) =>
      for (epochNumber <- epoch.toLongOption; at <- provenMs.toLongOption)
        yield Proof(epochNumber, at)
    case _ => None
  }

  private def plain(writer: String): String = {
    val kept = writer.filter(c => c < 128 && (c.isLetterOrDigit || c == '_' || c == '-'))
    if (kept.isEmpty) "executor" else kept
  }
}

/**
 * A restore test: the state after an epoch was restored.
 *
 * @param provenMs
 *   time in milliseconds since 1970
 */
final case class Proof(epoch: Long, provenMs: Long)
