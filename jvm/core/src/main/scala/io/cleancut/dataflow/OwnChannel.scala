package io.cleancut.dataflow

import scala.annotation.tailrec

import com.fasterxml.jackson.databind.ObjectMapper

/**
 * The channel of a loop, whose query both sends to it and reads it. After an operation on the
 * query's checkpoint, the channel must contain the epochs that count for the query, before the
 * query reads it. The sink does the same when it publishes its first rows, which would be too late
 * here.
 */
object OwnChannel {
  private val mapper = new ObjectMapper

  /**
   * An operation on the checkpoint of a query.
   *
   * @param epoch
   *   epoch of the operation
   * @param source
   *   epoch whose state it has
   */
  final case class Operation(epoch: Long, source: Long)

  /** Whether a channel belongs to a query. */
  def isOf(records: ChannelRecords, queryId: String): Boolean =
    records.read(ChannelLayout.Owner).exists { body =>
      mapper.readTree(body).path("queryId").asText == queryId
    }

  /**
   * Hides epochs that a rollback of the query has undone, and unhides epochs that count for it. If
   * it is interrupted, the next call continues.
   *
   * @param operations
   *   operations in the query's offset log, ascending
   */
  def follow(records: ChannelRecords, operations: Seq[Operation]): Unit = {
    val shown = ChannelLayout.numbersIn(records.names(ChannelLayout.Epochs))
    val hidden = ChannelLayout.attemptsIn(records.names(ChannelLayout.TakenBack))
    for {
      last <- (shown ++ hidden.map(_.epoch)).maxOption
      bound <- retainedUntil(operations.filter(_.epoch > last))
    } {
      val known = (recorded(records) ++ operations).distinct.sortBy(_.epoch)
      def isOurs(epoch: Long) = epoch <= bound && counts(epoch, bound, known)
      // The last epoch is hidden first, so that readers see all epochs up to one at any moment.
      shown.filterNot(isOurs).reverse.foreach(hide(records, _))
      hidden.filter(mark => isOurs(mark.epoch)).foreach(show(records, _))
    }
  }

  /** The last epoch before some operations that still counts after them; None if all do. */
  private def retainedUntil(operations: Seq[Operation]): Option[Long] =
    operations.foldRight(Option.empty[Long]) { (operation, bound) =>
      // Epochs after the source of a later operation were discarded by it, complete or not.
      if (bound.forall(operation.epoch <= _)) Some(operation.source) else bound
    }

  /** Whether an epoch counts for a query that is at another epoch. */
  @tailrec
  private[dataflow] def counts(epoch: Long, at: Long, operations: Seq[Operation]): Boolean =
    operations.lastOption match {
      case None                                        => true
      case Some(operation) if operation.epoch > at     => counts(epoch, at, operations.init)
      case Some(operation) if epoch > operation.epoch  => true
      case Some(operation) if epoch > operation.source => false
      case Some(operation) => counts(epoch, operation.source, operations.init)
    }

  private def hide(records: ChannelRecords, epoch: Long): Unit = {
    val name = ChannelLayout.manifest(epoch)
    records.read(name).foreach { body =>
      val mark = SentEpoch.parse(body, s"${records.location}/$name", epoch).mark
      records.create(ChannelLayout.withdrawal(mark), body)
      records.delete(name)
    }
  }

  private def show(records: ChannelRecords, mark: EpochMark): Unit = {
    val name = ChannelLayout.withdrawal(mark)
    records.read(name).foreach { body =>
      records.create(ChannelLayout.manifest(mark.epoch), body)
      records.delete(name)
    }
  }

  /** The operations that the sink has recorded, which include older ones than Spark's log. */
  private[dataflow] def recorded(records: ChannelRecords): Seq[Operation] = for {
    epoch <- ChannelLayout.numbersIn(records.names(ChannelLayout.Acts))
    body <- records.read(ChannelLayout.operation(epoch))
    source = mapper.readTree(body).path("source")
    if source.isIntegralNumber
  } yield Operation(epoch, source.longValue)
}
