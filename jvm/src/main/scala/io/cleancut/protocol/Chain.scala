package io.cleancut.protocol

import io.cleancut.StateVersion
import io.cleancut.format.Parent

/**
 * What has to be read to have a version: a base, unless the chain begins at version 0, then deltas.
 */
final case class Chain(base: Option[StateVersion], deltas: Seq[StateVersion]) {
  def target: StateVersion = deltas.lastOption.orElse(base).get
}

object Chain {

  /** Why there is no chain: the version at which it breaks, and what was expected there. */
  final case class Broken(number: Long, detail: String)

  /**
   * Finds the chain to a version, by the rules of `docs/FORMAT.md`, "Reading a version".
   *
   * @param id
   *   the id asked for; without one, the greatest id of that number
   * @param parentOf
   *   reads the parent out of a delta's header. It is asked only where the listing holds several
   *   ids of one number: elsewhere the name says it, and the reader compares the parent when it
   *   applies the delta.
   */
  def to(
      listing: StoreListing,
      number: Long,
      id: Option[String],
      parentOf: StateVersion => Parent
  ): Either[Broken, Chain] = {
    val candidates = listing.at(number)
    id.fold(candidates.lastOption)(wanted => candidates.find(_.id == wanted)) match {
      case None =>
        val found = if (candidates.isEmpty) "no frame" else candidates.mkString("only ", ", ", "")
        val wanted = id.fold(s"$number")(i => s"$number-$i")
        Left(Broken(number, s"version $wanted was wanted, $found found"))
      case Some(target) => walk(listing, target, Nil, parentOf)
    }
  }

  @annotation.tailrec
  private def walk(
      listing: StoreListing,
      at: StateVersion,
      later: List[StateVersion],
      parentOf: StateVersion => Parent
  ): Either[Broken, Chain] =
    if (listing.bases(at)) Right(Chain(Some(at), later))
    else if (at.number == 1) Right(Chain(None, at :: later))
    else {
      val below = listing.at(at.number - 1)
      val parent = below match {
        case Seq(only)                   => Some(only)
        case several if several.nonEmpty =>
          val named = parentOf(at)
          several.find(v => named.id.contains(v.id))
        case _ => None
      }
      parent match {
        case Some(version) => walk(listing, version, at :: later, parentOf)
        case None          =>
          Left(Broken(at.number - 1, s"the delta $at applies to it, and it has no frame"))
      }
    }
}
