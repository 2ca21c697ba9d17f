package io.cleancut.conf

/**
 * Syntax of the values of a key.
 *
 * @param unit
 *   unit of a value, for the documentation
 */
final class KeyType[A] private (
    val unit: String,
    val allowed: String,
    parser: String => Option[A],
    val render: A => String
) {

  /** The value, or the problem with the text. */
  def parse(text: String): Either[String, A] =
    parser(text.trim).toRight(s"must be $allowed, not '$text'")
}

object KeyType {

  val boolean: KeyType[Boolean] =
    new KeyType[Boolean]("switch", "true or false", _.toLowerCase.toBooleanOption, _.toString)

  def int(unit: String, min: Int, max: Int): KeyType[Int] =
    new KeyType[Int](
      unit,
      s"a whole number from $min to $max",
      _.toIntOption.filter(value => value >= min && value <= max),
      _.toString
    )

  /**
   * A duration in milliseconds. A bare number is refused, because Spark's own keys differ on its
   * unit.
   */
  def durationMs(maxMs: Long): KeyType[Long] =
    new KeyType[Long](
      "duration",
      s"a number with a unit (${DurationUnits.map(_._1).mkString(", ")}) up to ${renderMs(maxMs)}",
      text => parseMs(text).filter(_ <= maxMs),
      renderMs
    )

  /** A size in bytes, or [[Auto]] for an automatic value. */
  def bytesOrAuto(min: Long): KeyType[Long] =
    new KeyType[Long](
      "bytes",
      s"$AutoText, or a number with a unit (k, m, g, t) from ${renderBytes(min)} up",
      text => if (text == AutoText) Some(Auto) else parseBytes(text).filter(_ >= min),
      bytes => if (bytes == Auto) AutoText else renderBytes(bytes)
    )

  /** A size in bytes. */
  def bytes(min: Long): KeyType[Long] =
    new KeyType[Long](
      "bytes",
      "a number with a unit (k, m, g, t)" + (if (min > 0L) s" from ${renderBytes(min)} up" else ""),
      text => parseBytes(text).filter(_ >= min),
      renderBytes
    )

  /** One of several words. */
  def word(unit: String, words: Seq[String]): KeyType[String] =
    new KeyType[String](
      unit,
      words.init.mkString(", ") + s" or ${words.last}",
      text => Some(text).filter(words.contains),
      identity
    )

  /** One of several words, or None for an automatic value. */
  def wordOrAuto(unit: String, words: Seq[String]): KeyType[Option[String]] =
    textOrAuto(unit, words.init.mkString(", ") + s" or ${words.last}", words.contains(_))

  /** A text, or None for an automatic value. */
  def textOrAuto(
      unit: String,
      allowed: String,
      isAllowed: String => Boolean
  ): KeyType[Option[String]] =
    new KeyType[Option[String]](
      unit,
      s"$AutoText, $allowed",
      text => if (text == AutoText) Some(None) else Some(text).filter(isAllowed).map(Some(_)),
      _.getOrElse(AutoText)
    )

  /** The value of an automatic size. */
  val Auto: Long = -1L

  private val AutoText = "auto"
  private val ByteUnits =
    Seq("t" -> (1L << 40), "g" -> (1L << 30), "m" -> (1L << 20), "k" -> (1L << 10))
  private val ByteText = "(\\d{1,6})\\s*([kmgt])".r

  private def parseBytes(text: String): Option[Long] =
    text match {
      case ByteText(count, unit) =>
        ByteUnits.collectFirst { case (`unit`, bytes) => count.toLong * bytes }
      case _ => None
    }

  private def renderBytes(bytes: Long): String = {
    val (unit, size) =
      ByteUnits.find { case (_, size) => bytes % size == 0 }.getOrElse(ByteUnits.last)
    s"${bytes / size}$unit"
  }

  // Longest unit first, so that rendering uses the largest unit that divides.
  private val DurationUnits = Seq("h" -> 3600000L, "m" -> 60000L, "s" -> 1000L, "ms" -> 1L)
  private val DurationText = "(\\d{1,12})\\s*([a-z]+)".r

  private def parseMs(text: String): Option[Long] =
    text match {
      case DurationText(count, unit) =>
        DurationUnits.collectFirst { case (`unit`, unitMs) => count.toLong * unitMs }
      case _ => None
    }

  private def renderMs(durationMs: Long): String = {
    val (unit, unitMs) = DurationUnits
      .find { case (_, unitMs) => durationMs >= unitMs && durationMs % unitMs == 0 }
      .getOrElse(DurationUnits.last)
    s"${durationMs / unitMs}$unit"
  }
}
