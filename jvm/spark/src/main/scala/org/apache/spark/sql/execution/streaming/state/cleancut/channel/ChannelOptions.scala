package org.apache.spark.sql.execution.streaming.state.cleancut.channel

import scala.util.Try

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap

import io.cleancut.dataflow.ChannelBounds
import io.cleancut.error.Errors

/**
 * The options for reading a channel.
 *
 * @param tag
 *   name of the column for the origin of each row
 * @param pollMs
 *   minimum interval between requests to the store for new epochs
 * @param isFeedback
 *   whether the query also receives its own output, and therefore ends only when nothing is left
 * @param yieldsTo
 *   another channel that the query reads, and its maximum number of unread bytes: if it has more,
 *   nothing is read from this one
 * @param epochs
 *   the epochs that a batch reads
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
  private val StreamOptions =
    Seq(Path, Tag, MaxEpochs, MaxRows, MaxBytes, Poll, Feedback, YieldsTo, YieldsAbove)
  private val BatchOptions = Seq(Path, Tag, Epochs)

  /** Default of `yieldsAbove`. */
  private val DefaultBytes = 64L << 20

  /**
   * Parses Spark's options of a source.
   *
   * @param isBatch
   *   whether selected epochs are read, instead of a stream
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CONF_INVALID
   */
  def parse(parameters: Map[String, String], isBatch: Boolean): ChannelOptions = {
    val known = if (isBatch) BatchOptions else StreamOptions
    val options = CaseInsensitiveMap(parameters)
    def refuse(problem: String) =
      throw Errors.confInvalid(Seq(s"Options of a channel's reader: $problem."))
    parameters.keys.filterNot(key => known.exists(_.equalsIgnoreCase(key))).foreach { key =>
      refuse(s"$key is unknown; the options are ${known.mkString(", ")}")
    }
    def positive(key: String, read: String => Long, what: String) = options.get(key).map { text =>
      Try(read(text)).filter(_ > 0).getOrElse(refuse(s"$key is $text, but must be $what"))
    }
    ChannelOptions(
      options.getOrElse(Path, refuse(s"the $Path is missing")),
      options.get(Tag).filter(_.nonEmpty),
      ChannelBounds(
        positive(MaxEpochs, _.toLong, "a positive integer"),
        positive(MaxRows, _.toLong, "a positive integer"),
        positive(MaxBytes, JavaUtils.byteStringAsBytes, "a size such as 64m")
      ),
      positive(Poll, JavaUtils.timeStringAsMs, "a time such as 100ms"),
      options.get(Feedback).exists { text =>
        text.toBooleanOption.getOrElse(refuse(s"$Feedback is $text, but must be true or false"))
      },
      options.get(YieldsTo).map { path =>
        val above = positive(YieldsAbove, JavaUtils.byteStringAsBytes, "a size such as 64m")
        path -> above.getOrElse(DefaultBytes)
      },
      if (isBatch) {
        val text = options.getOrElse(Epochs, "missing")
        Try(text.split(',').toSeq.map(_.trim.toLong))
          .getOrElse(refuse(s"$Epochs is $text, but must be comma-separated numbers"))
      } else Nil
    )
  }
}
