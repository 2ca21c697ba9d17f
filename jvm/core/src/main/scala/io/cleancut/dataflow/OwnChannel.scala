package io.cleancut.dataflow

import scala.annotation.tailrec

import com.fasterxml.jackson.databind.ObjectMapper

/**
 * The channel of a loop, whose one query sends into it and reads it: after an act on the query's
 * checkpoint it is to hold what counts for the query, before that reads it. (Its sink does the same
 * of its own accord when it has the first rows to publish, which here would be too late.)
 */
object OwnChannel {
  private val mapper = new ObjectMapper

  /**
   * An act on the checkpoint of a query.
   *
   * @param epoch
   *   the number that it has taken
   * @param source
   *   the epoch whose result it has
   */
  final case class Act(epoch: Long, source: Long)

  /** Whether a channel is that of a query. */
  def isOf(records: ChannelRecords, queryId: String): Boolean =
    records.read(ChannelLayout.Owner).exists { body =>
      mapper.readTree(body).path("queryId").asText == queryId
    }

  /**
   * Hides what the query has gone back behind, and shows what counts for it again. Killed, it does
   * the rest when it is called again.
   *
   * @param acts
   *   those that the query's offset log has, ascending
   */
  def follow(records: ChannelRecords, acts: Seq[Act]): Unit = {
    val shown = ChannelLayout.numbersIn(records.names(ChannelLayout.Epochs))
    val hidden = ChannelLayout.attemptsIn(records.names(ChannelLayout.TakenBack))
    for {
      last <- (shown ++ hidden.map(_.epoch)).maxOption
      bound <- keptUntil(acts.filter(_.epoch > last))
    } {
      val known = (recorded(records) ++ acts).distinct.sortBy(_.epoch)
      def isOurs(epoch: Long) = epoch <= bound && counts(epoch, bound, known)
      // The last goes first, so that readers see all epochs up to some one at any moment.
      shown.filterNot(isOurs).reverse.foreach(hide(records, _))
      hidden.filter(of => isOurs(of.epoch)).foreach(show(records, _))
    }
  }

  /** The last epoch before some acts that still counts after them; None if all do. */
  private def keptUntil(acts: Seq[Act]): Option[Long] =
    acts.foldRight(Option.empty[Long]) { (act, bound) =>
      // What comes after the source of a later one was left by it, done or not.
      if (bound.forall(act.epoch <= _)) Some(act.source) else bound
    }

  /** Whether an epoch that was published at some time counts for a query that stands at another. */
  @tailrec
  private[dataflow] def counts(epoch: Long, at: Long, acts: Seq[Act]): Boolean =
    acts.lastOption match {
      case None                            => true
      case Some(act) if act.epoch > at     => counts(epoch, at, acts.init)
      case Some(act) if epoch > act.epoch  => true
      case Some(act) if epoch > act.source => false
      case Some(act)                       => counts(epoch, act.source, acts.init)
    }

  private def hide(records: ChannelRecords, epoch: Long): Unit = {
    val name = ChannelLayout.manifest(epoch)
    records.read(name).foreach { body =>
      val mark = SentEpoch.parse(body, s"${records.location}/$name", epoch).mark
      records.create(ChannelLayout.takenBack(mark), body)
      records.delete(name)
    }
  }

  private def show(records: ChannelRecords, mark: EpochMark): Unit = {
    val name = ChannelLayout.takenBack(mark)
    records.read(name).foreach { body =>
      records.create(ChannelLayout.manifest(mark.epoch), body)
      records.delete(name)
    }
  }

  /** The operations that the sink has recorded, which go further back than Spark's log. */
  private[dataflow] def recorded(records: ChannelRecords): Seq[Act] = for {
    epoch <- ChannelLayout.numbersIn(records.names(ChannelLayout.Acts))
    body <- records.read(ChannelLayout.act(epoch))
    source = mapper.readTree(body).path("source")
    if source.isIntegralNumber
  } yield Act(epoch, source.longValue)
}
