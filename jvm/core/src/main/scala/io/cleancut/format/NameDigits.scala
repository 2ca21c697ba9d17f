package io.cleancut.format

/** Numbers in the names of objects, which sort as the numbers do. */
private[cleancut] object NameDigits {
  private val Count = 20

  def padded(number: Long): String = {
    val digits = number.toString
    "0" * (Count - digits.length) + digits
  }
}
