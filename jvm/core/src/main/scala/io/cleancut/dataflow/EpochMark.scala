package io.cleancut.dataflow

/**
 * One published epoch. The attempt distinguishes it from other epochs that were published under its
 * number, for example before a rollback of the sender.
 *
 * @param epoch
 *   Spark's batch ID in the sending query
 * @param attempt
 *   token of the attempt whose files are published
 */
final case class EpochMark(epoch: Long, attempt: String)
