package io.cleancut.engine

/** A pass over the newest records of some keys of a table. */
abstract class RecordScan {

  /** Moves to the next record; false at the end. */
  def advance(): Boolean

  /** Address of the record that [[advance]] moved to. */
  def address: Long
}

object RecordScan {
  object Empty extends RecordScan {
    override def advance(): Boolean = false
    override def address: Long = throw new NoSuchElementException("no record")
  }
}
