package io.cleancut.error

/**
 * One entry of `error/cleancut-error-classes.json`. Each text is a template: `<parameter>` is
 * replaced by its value.
 *
 * @param message
 *   what happened
 * @param dataLoss
 *   begins with "No." or "Possibly."
 */
final case class ErrorClass(
    id: String,
    kind: ErrorKind,
    sqlState: String,
    message: String,
    dataLoss: String,
    runbook: Runbook
) {

  /** URL of the class in the documentation. */
  def url: String = s"${ErrorClass.Page}#${id.toLowerCase(java.util.Locale.ROOT)}"

  /**
   * The values, each on one line. They are truncated until the message has at most
   * [[ErrorClass.MaxMessage]] characters.
   */
  def fitted(params: Seq[(String, String)]): Seq[(String, String)] = {
    val lines = params.map { case (name, value) => name -> ErrorClass.onOneLine(value) }
    def cut(limit: Int) = lines.map { case (name, value) => name -> shortened(value, limit) }
    ErrorClass.Limits.iterator
      .map(cut)
      .find(render(_).length <= ErrorClass.MaxMessage)
      .getOrElse(cut(ErrorClass.Limits.last))
  }

  private def shortened(text: String, limit: Int): String =
    if (text.length <= limit) text else s"${text.take(limit)}…"

  /** Five lines. The first one ends with the values that no line contains, as `name=value`. */
  def render(params: Seq[(String, String)]): String = {
    val named = ErrorClass.Placeholder.findAllMatchIn(lines.mkString).map(_.group(1)).toSet
    val unnamed = params.collect { case (name, value) if !named(name) => s" $name=$value" }
    val filled = lines.map(fill(_, params))
    ((filled.head + unnamed.mkString) +: filled.tail).mkString("\n")
  }

  private def lines: Seq[String] = Seq(
    s"[$id] $message",
    s"Data lost: $dataLoss",
    s"Diagnose: ${runbook.diagnose}",
    s"Fix: ${runbook.fix}",
    s"SQLSTATE: $sqlState. $url"
  )

  // One pass, so that a value in the form of a parameter is not replaced.
  private def fill(template: String, params: Seq[(String, String)]): String = {
    val values = params.toMap
    ErrorClass.Placeholder.replaceAllIn(
      template,
      placeholder =>
        java.util.regex.Matcher
          .quoteReplacement(values.getOrElse(placeholder.group(1), placeholder.matched))
    )
  }
}

/**
 * Instructions for operators about an error class.
 *
 * @param cause
 *   explanation, for the documentation only
 * @param diagnose
 *   command that shows details
 * @param fix
 *   command or setting that resolves it
 */
final case class Runbook(cause: String, diagnose: String, fix: String)

object ErrorClass {
  val MaxMessage = 2000

  /** The documentation page with all classes, from `mkdocs.yml`. */
  val Page = "https://cleancut.io/reference/errors.html"

  /** Maximum lengths of one value, descending. */
  private val Limits = Seq(MaxMessage, 1000, 700, 500, 350, 250, 150, 100, 60, 30)

  private[error] val Placeholder = "<([A-Za-z]+)>".r

  private def onOneLine(text: String): String = text.replaceAll("\\s*[\\r\\n]+\\s*", " ")
}
