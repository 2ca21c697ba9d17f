package io.cleancut.dataflow

/**
 * One published epoch, told from any other that was ever published under its number: when a sender
 * goes back and publishes anew, the files are those of another attempt.
 *
 * @param epoch
 *   Spark's batch id in the query that sends
 * @param attempt
 *   the token of the attempt whose files are published
 */
final case class EpochMark(epoch: Long, attempt: String)
