package io.cleancut.base

/** The store of a state version: operator, partition, and Spark's store name. */
final case class StoreId(operator: Long, partition: Int, name: String) {
  // A driver looks up tens of thousands of IDs in each epoch.
  @transient override lazy val hashCode: Int =
    (java.lang.Long.hashCode(operator) * 31 + partition) * 31 + name.hashCode

  def operatorPartition: OperatorPartition = OperatorPartition(operator, partition)

  override def toString: String = s"operator=$operator partition=$partition store=$name"
}

/** A partition of a stateful operator: the key of all stores and shuffle inputs of one task. */
final case class OperatorPartition(operator: Long, partition: Int)

/**
 * One version of one store. Two task attempts that commit the same version number create two IDs.
 * Version 0 is the empty store and has no ID.
 */
final case class StateVersion(number: Long, id: String) {
  require(number > 0, s"only versions above 0 have an id, not $number")
  require(StateVersion.isId(id), s"not an id: $id")
  override def toString: String = s"$number-$id"
}

object StateVersion {
  private val IdLength = 32

  def isId(text: String): Boolean = text.length == IdLength && {
    var at = 0
    while (at < IdLength && isDigit(text.charAt(at))) at += 1
    at == IdLength
  }

  // A table, because the branch would be unpredictable, and a driver checks millions of IDs.
  private val digits = Array.tabulate(128)(c => (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))

  private def isDigit(c: Char) = c < 128 && digits(c.toInt)

  /**
   * A new ID: a UUID version 7 (RFC 9562) as 32 hexadecimal digits. Its first 48 bits are the time
   * in milliseconds, so that the later of two attempts at a version has the greater ID.
   */
  def newId(clock: Clock): String = {
    val bytes = clock.randomBytes(16)
    val time = clock.wallMs()
    for (i <- 0 until 6) bytes(i) = (time >>> (40 - 8 * i)).toByte
    bytes(6) = (0x70 | (bytes(6) & 0x0f)).toByte
    bytes(8) = (0x80 | (bytes(8) & 0x3f)).toByte
    bytes.map(b => f"${b & 0xff}%02x").mkString
  }
}
