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

  /**
   * The facts as they fit a screen with this text: none is longer than what lets the whole message
   * stay within [[ErrorClass.MaxMessage]] characters.
   */
  def fitted(params: Seq[(String, String)]): Seq[(String, String)] = {
    def cut(limit: Int) = params.map { case (name, value) => name -> shortened(value, limit) }
    ErrorClass.Limits.iterator
      .map(cut)
      .find(render(_).length <= ErrorClass.MaxMessage)
      .getOrElse(cut(ErrorClass.Limits.last))
  }

  private def shortened(text: String, limit: Int): String =
    if (text.length <= limit) text else s"${text.take(limit)}…"

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
  val MaxMessage = 2000

  /** Of one fact, from the widest down. */
  private val Limits = Seq(MaxMessage, 1000, 700, 500, 350, 250, 150, 100, 60, 30)

  private[error] val Placeholder = "\\{([A-Za-z]+)\\}".r
}
