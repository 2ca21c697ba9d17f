package io.cleancut.error

/**
 * The next step of an operator. Every error class has exactly one kind.
 *
 * @param nextStep
 *   sentence in the imperative
 */
sealed abstract class ErrorKind(val name: String, val nextStep: String) extends Serializable {
  override def toString: String = name
}

object ErrorKind {
  case object Retry
      extends ErrorKind(
        "RETRY",
        "Run it again without a change. Spark retries a failed task itself."
      )

  case object Restart
      extends ErrorKind("RESTART", "Another run owns the query. Start it again to take over.")

  case object FixRequest
      extends ErrorKind("FIX_REQUEST", "Change the query, its configuration or its environment.")

  case object Restore
      extends ErrorKind("RESTORE", "Stored data is corrupted or missing. Restore it or roll back.")

  case object Report
      extends ErrorKind(
        "REPORT",
        "Cleancut has violated an invariant. Report the error with its values."
      )

  val values: Seq[ErrorKind] = Seq(Retry, Restart, FixRequest, Restore, Report)

  def named(name: String): Option[ErrorKind] = values.find(_.name == name)
}
