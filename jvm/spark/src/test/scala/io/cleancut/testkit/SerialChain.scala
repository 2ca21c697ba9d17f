package io.cleancut.testkit

/**
 * The longest serial chain of requests: the largest number of requests each of which began after
 * the one before it was over. A process that made no two requests concurrently would need at least
 * this number of round trips, so it is an upper limit of the requests that depend on each other.
 */
object SerialChain {

  /** The requests of a chain that ended before a time, in their order. */
  def longest(requests: Seq[TimedRequest], untilNs: Long): Seq[TimedRequest] = {
    // Of all requests that can follow, the one that ends first leaves the most room.
    val byEnd = requests.filter(_.endNs <= untilNs).sortBy(_.endNs)
    byEnd.foldLeft(Vector.empty[TimedRequest]) { (chain, next) =>
      if (chain.lastOption.forall(_.endNs <= next.beginNs)) chain :+ next else chain
    }
  }
}
