package io.cleancut.format

import io.cleancut.base.StateVersion

/**
 * What a seal is called.
 *
 * @param generation
 *   of the run that wrote it
 */
final case class SealName(epoch: Long, generation: Long)

/** The only place that builds and parses the names of what cuts are made of, below the root. */
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

  /** What drills have noted; the names say it. */
  val Proofs: String = "proofs/"

  /** What passes have noted that keep a copy up. */
  val Replicas: String = "replicas/"

  def cut(epoch: Long): String = s"$Cuts${padded(epoch)}.cut"

  /** The epoch of a name below [[Cuts]]; None for foreign objects. */
  def parseCut(name: String): Option[Long] = name match {
    case CutName(epoch) => epoch.toLongOption
    case _              => None
  }

  /** The seals of an epoch, of whatever runs, for messages. */
  def sealsOf(epoch: Long): String = s"$Cuts${padded(epoch)}*.sealed"

  def seal(name: SealName): String =
    s"$Cuts${padded(name.epoch)}.${padded(name.generation)}.sealed"

  /** Whose seal it is by its name below [[Cuts]]; None for all others. */
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

  /** The name of a savepoint by its object's name below [[Savepoints]]. */
  def parseSavepoint(name: String): Option[String] = name match {
    case SavepointName(plain) => Some(plain)
    case _                    => None
  }

  /**
   * @param writer
   *   `driver` or an executor's id
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

  /** The epoch of a segment by its name below the root. */
  def parseSegment(name: String): Option[Long] = name match {
    case SegmentName(epoch, _, _) => epoch.toLongOption
    case _                        => None
  }

  def page(epoch: Long, id: String): String = {
    require(StateVersion.isId(id), s"not an id: $id")
    s"$Pages${padded(epoch)}/$id.page"
  }

  /** The epoch of a page by its name below the root. */
  def parsePage(name: String): Option[Long] = name match {
    case PageName(epoch, _) => epoch.toLongOption
    case _                  => None
  }

  def owner(generation: Long): String = s"$Owners${padded(generation)}.json"

  /** What says that the run of a generation has ended. */
  def ended(generation: Long): String = s"$Owners${padded(generation)}.ended"

  def parseOwner(name: String): Option[Long] = name match {
    case OwnerName(generation) => generation.toLongOption
    case _                     => None
  }

  /** A proof by its name below the root. */
  def parseProof(name: String): Option[Proof] = name match {
    case ProofName(epoch, provenMs) =>
      for (of <- epoch.toLongOption; at <- provenMs.toLongOption) yield Proof(of, at)
    case _ => None
  }

  private def plain(writer: String): String = {
    val kept = writer.filter(c => c < 128 && (c.isLetterOrDigit || c == '_' || c == '-'))
    if (kept.isEmpty) "executor" else kept
  }
}

/**
 * A drill has proven that the state after an epoch can be restored.
 *
 * @param provenMs
 *   when, in milliseconds since 1970
 */
final case class Proof(epoch: Long, provenMs: Long)
