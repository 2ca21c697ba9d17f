package io.cleancut.error

/**
 * One entry of `error/cleancut-error-classes.json`.
 *
 * @param message
 *   the problem and its cause, with `{parameter}` where a fact goes
 * @param remedy
 *   what to do about it, with parameters likewise
 */
final case class ErrorClass(id: String, kind: ErrorKind, message: String, remedy: String) {

  /** `[ID] problem. remedy. name=value …`, where facts that the text has named are not repeated. */
  def render(params: Seq[(String, String)]): String = {
    val named = ErrorClass.Placeholder.findAllMatchIn(message + remedy).map(_.group(1)).toSet
    val facts = params.collect { case (name, value) if !named(name) => s"$name=$value" }
    (Seq(s"[$id]", fill(message, params), fill(remedy, params)) ++ facts).mkString(" ")
  }

  // One pass, so that a brace within a value is never taken for a parameter.
  private def fill(template: String, params: Seq[(String, String)]): String = {
    val values = params.toMap
    ErrorClass.Placeholder.replaceAllIn(
      template,
      found =>
        java.util.regex.Matcher.quoteReplacement(values.getOrElse(found.group(1), found.matched))
    )
  }
}

object ErrorClass {
  private[error] val Placeholder = "\\{([A-Za-z]+)\\}".r
}
