package io.cleancut.format

/** Numbers in object names, padded so that names sort numerically. */
private[cleancut] object NameDigits {
  private val Count = 20

  def padded(number: Long): String = {
    val digits = number.toString
    "0" * (Count - digits.length) + digits
  }
}
