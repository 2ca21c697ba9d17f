package io.cleancut.protocol

import io.cleancut.base.StateVersion
import io.cleancut.format.frame.Parent

/** The frames of a version: a base, unless the chain begins at version 0, then deltas. */
final case class Chain(base: Option[StateVersion], deltas: Seq[StateVersion]) {
  def target: StateVersion = deltas.lastOption.orElse(base).get
}

object Chain {

  /** The reason why there is no chain: the version at which it breaks, and the expected frame. */
  final case class Broken(number: Long, detail: String)

  /**
   * Finds the chain to a version, by the rules of `docs/FORMAT.md`, "Reading a version".
   *
   * @param id
   *   requested ID; without one, the greatest ID of that number
   * @param parentOf
   *   reads the parent from the header of a delta. It is called only if the listing has several IDs
   *   of one number. Otherwise the name is sufficient, and the reader compares the parent when it
   *   applies the delta
   */
  def to(
      listing: StoreListing,
      number: Long,
      id: Option[String],
      parentOf: StateVersion => Parent
  ): Either[Broken, Chain] =
    find(listing, number, id).flatMap(walk(listing, _, Nil, parentOf, listing.bases))

  /**
   * Finds the chain that begins with the base of exactly this version, even if a later base exists.
   */
  def from(
      listing: StoreListing,
      base: Long,
      baseId: Option[String],
      number: Long,
      id: Option[String],
      parentOf: StateVersion => Parent
  ): Either[Broken, Chain] = {
    def isBase(version: StateVersion) =
      version.number == base && listing.bases(version) && baseId.forall(_ == version.id)
    find(listing, number, id).flatMap(walk(listing, _, Nil, parentOf, isBase)).flatMap { chain =>
      if (chain.base.isDefined) Right(chain) else Left(Broken(base, s"version $base has no base"))
    }
  }

  /** Finds the deltas of the versions from `first` on, regardless of bases. */
  def deltas(
      listing: StoreListing,
      first: Long,
      number: Long,
      id: Option[String],
      parentOf: StateVersion => Parent
  ): Either[Broken, Seq[StateVersion]] =
    find(listing, number, id)
      .flatMap(walk(listing, _, Nil, parentOf, _.number < first))
      .map(_.deltas)
      .flatMap { versions =>
        versions
          .find(!listing.deltas(_))
          .map(v => Broken(v.number, s"$v has no delta"))
          .toLeft(versions)
      }

  private def find(
      listing: StoreListing,
      number: Long,
      id: Option[String]
  ): Either[Broken, StateVersion] = {
    val candidates = listing.at(number)
    id.fold(candidates.lastOption)(wanted => candidates.find(_.id == wanted)).toRight {
      val existing = if (candidates.isEmpty) "no frame" else candidates.mkString("only ", ", ", "")
      val wanted = id.fold(s"$number")(i => s"$number-$i")
      Broken(number, s"version $wanted was expected, found $existing")
    }
  }

  /** Walks back from parent to parent until `isEnd`, or to version 0. */
  @annotation.tailrec
  private def walk(
      listing: StoreListing,
      at: StateVersion,
      later: List[StateVersion],
      parentOf: StateVersion => Parent,
      isEnd: StateVersion => Boolean
  ): Either[Broken, Chain] =
    if (isEnd(at)) Right(Chain(Some(at), later))
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
        case Some(version) => walk(listing, version, at :: later, parentOf, isEnd)
        case None          =>
          Left(Broken(at.number - 1, s"the delta $at applies to it, and it has no frame"))
      }
    }
}
