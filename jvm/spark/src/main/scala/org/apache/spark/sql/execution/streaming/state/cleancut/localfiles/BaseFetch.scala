package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

/**
 * The state of the fetch of a base. Pure: [[LocalBases]] holds its lock, and performs the effects
 * of events.
 */
sealed private[localfiles] trait BaseFetch {

  /** Whether another reader may share it. */
  def isComing: Boolean = this match {
    case BaseFetch.Coming(_) => true
    case _                   => false
  }
}

private[localfiles] object BaseFetch {

  /** Pieces are missing, and `readers` have the file open. */
  final case class Coming(readers: Int) extends BaseFetch

  /** The file is complete, and `readers` have it open. */
  final case class Arrived(readers: Int) extends BaseFetch

  /** No reader has it open, and requested pieces are still missing. */
  case object Left extends BaseFetch

  /** No reader has it open, and no piece is pending. */
  case object Over extends BaseFetch

  sealed trait Event
  object Event {
    case object Opened extends Event
    case object Closed extends Event
    case object Completed extends Event
  }

  sealed trait Effect
  object Effect {

    /** The file becomes a copy for later readers. */
    case object Keep extends Effect

    /** The file is deleted. */
    case object Delete extends Effect

    /** No further piece is requested, and the file is closed. */
    case object Stop extends Effect
  }

  import Effect._
  import Event._

  /** The state before the first reader. */
  val Begun: BaseFetch = Coming(0)

  def decide(state: BaseFetch, event: Event): (BaseFetch, Seq[Effect]) = (state, event) match {
    case (Coming(readers), Opened)                 => (Coming(readers + 1), Nil)
    case (Arrived(readers), Opened)                => (Arrived(readers + 1), Nil)
    case (Coming(readers), Completed)              => (Arrived(readers), Seq(Keep))
    case (Coming(readers), Closed) if readers > 1  => (Coming(readers - 1), Nil)
    case (Coming(_), Closed)                       => (Left, Seq(Delete, Stop))
    case (Arrived(readers), Closed) if readers > 1 => (Arrived(readers - 1), Nil)
    case (Arrived(_), Closed)                      => (Over, Seq(Stop))
    case (Left, Completed)                         => (Over, Seq(Delete))
    case _ => throw new IllegalStateException(s"$event of a fetch that is $state")
  }
}
