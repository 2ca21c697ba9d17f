package org.apache.spark.sql.execution.streaming.state.cleancut.channel

import scala.util.Try

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap

import io.cleancut.dataflow.ChannelBounds
import io.cleancut.error.Errors

/**
 * How a channel is read.
 *
 * @param tag
 *   the column that says where a row is from
 * @param pollMs
 *   how often the store is asked for more, at most
 * @param isFeedback
 *   whether what the query sends comes round to it again, so that it ends only when nothing is left
 * @param yieldsTo
 *   a channel that the query reads too, and how many bytes of it may wait: while there are more,
 *   nothing is taken of this one
 * @param epochs
 *   those that a batch reads
 */
final case class ChannelOptions(
    path: String,
    tag: Option[String],
    bounds: ChannelBounds,
    pollMs: Option[Long],
    isFeedback: Boolean,
    yieldsTo: Option[(String, Long)],
    epochs: Seq[Long]
)

object ChannelOptions {
  private val Path = "path"
  private val Tag = "tagColumn"
  private val MaxEpochs = "maxEpochsPerTrigger"
  private val MaxRows = "maxRowsPerTrigger"
  private val MaxBytes = "maxBytesPerTrigger"
  private val Poll = "pollInterval"
  private val Feedback = "feedback"
  private val YieldsTo = "yieldsTo"
  private val YieldsAbove = "yieldsAbove"
  private val Epochs = "epochs"
  private val OfStream =
    Seq(Path, Tag, MaxEpochs, MaxRows, MaxBytes, Poll, Feedback, YieldsTo, YieldsAbove)
  private val OfBatch = Seq(Path, Tag, Epochs)

  /** Of a channel that others yield to. */
  private val DefaultBytes = 64L << 20

  /**
   * Reads Spark's options of a source.
   *
   * @param isBatch
   *   whether some epochs are read, and no stream
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CONF_INVALID
   */
  def parse(parameters: Map[String, String], isBatch: Boolean): ChannelOptions = {
    val known = if (isBatch) OfBatch else OfStream
    val options = CaseInsensitiveMap(parameters)
    def refuse(problem: String) = throw Errors.confInvalid(Seq(s"Of a channel's reader, $problem."))
    parameters.keys.filterNot(key => known.exists(_.equalsIgnoreCase(key))).foreach { key =>
      refuse(s"$key is no option; there are ${known.mkString(", ")}")
    }
    def positive(key: String, read: String => Long, what: String) = options.get(key).map { text =>
      Try(read(text)).filter(_ > 0).getOrElse(refuse(s"$key is $text, and is to be $what"))
    }
    ChannelOptions(
      options.getOrElse(Path, refuse(s"the $Path is missing")),
      options.get(Tag).filter(_.nonEmpty),
      ChannelBounds(
        positive(MaxEpochs, _.toLong, "a whole number from 1 on"),
        positive(MaxRows, _.toLong, "a whole number from 1 on"),
        positive(MaxBytes, JavaUtils.byteStringAsBytes, "a size such as 64m")
      ),
      positive(Poll, JavaUtils.timeStringAsMs, "a time such as 100ms"),
      options.get(Feedback).exists { text =>
        text.toBooleanOption.getOrElse(refuse(s"$Feedback is $text, and is to be true or false"))
      },
      options.get(YieldsTo).map { path =>
        val above = positive(YieldsAbove, JavaUtils.byteStringAsBytes, "a size such as 64m")
        path -> above.getOrElse(DefaultBytes)
      },
      if (isBatch) {
        val text = options.getOrElse(Epochs, "missing")
        Try(text.split(',').toSeq.map(_.trim.toLong))
          .getOrElse(refuse(s"$Epochs is $text, and is to be numbers with commas between them"))
      } else Nil
    )
  }
}
