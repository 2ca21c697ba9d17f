package io.cleancut.error

/** What the reader of an error should do next. Every error class has exactly one kind. */
sealed abstract class ErrorKind(val name: String, val nextAct: String) extends Serializable {
  override def toString: String = name
}

object ErrorKind {
  case object Retry
      extends ErrorKind("RETRY", "Run it again as it is; Spark retries a failed task by itself.")

  case object Reopen
      extends ErrorKind("REOPEN", "Somebody else owns the query now; start it again to go on.")

  case object FixRequest
      extends ErrorKind("FIX_REQUEST", "Change the query, its configuration or its environment.")

  case object Damaged
      extends ErrorKind("DAMAGED", "Stored data is damaged or missing; restore it before going on.")

  case object Bug
      extends ErrorKind("BUG", "Cleancut broke a rule of its own; please report it with its facts.")

  val values: Seq[ErrorKind] = Seq(Retry, Reopen, FixRequest, Damaged, Bug)

  def named(name: String): Option[ErrorKind] = values.find(_.name == name)
}
