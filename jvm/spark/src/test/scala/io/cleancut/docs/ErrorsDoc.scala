package io.cleancut.docs

import io.cleancut.error.{ErrorCatalog, ErrorClass, ErrorKind}

/** Renders the error classes as `docs/reference/errors.md`. */
object ErrorsDoc {

  def markdown: String = {
    val header =
      """|# Errors
         |
         |Generated from `cleancut-error-classes.json` by `make docs`. Every error has an id, which
         |never changes its meaning, and a kind, which is the next step of the operator. A message
         |has five lines: what happened, whether data was lost, a command to diagnose it, a command
         |to fix it, and the SQLSTATE with the address of the section below. In the texts below,
         |`<name>` stands for a value of the message, and a word in capitals for your own value.
         |
         || kind | Python class | next step |
         ||---|---|---|
         |""".stripMargin
    header + ErrorKind.values.map(row).mkString + ErrorCatalog.classes.values.map(section).mkString
  }

  private def row(kind: ErrorKind): String =
    s"| `${kind.name}` | `${PythonClasses(kind)}` | ${kind.nextStep} |\n"

  private val PythonClasses: Map[ErrorKind, String] = Map(
    ErrorKind.Retry -> "RetryableError",
    ErrorKind.Restart -> "FencedError",
    ErrorKind.FixRequest -> "RequestError",
    ErrorKind.Restore -> "CorruptedError",
    ErrorKind.Report -> "InternalError"
  )

  private def section(errorClass: ErrorClass): String =
    s"""|
        |## ${errorClass.id}
        |
        |Kind `${errorClass.kind.name}`, SQLSTATE `${errorClass.sqlState}`.
        |
        |${quoted(errorClass.message)}
        |
        |- *Is data lost?* ${quoted(errorClass.dataLoss)}
        |- *Cause.* ${quoted(errorClass.runbook.cause)}
        |- *Diagnose.* ${quoted(errorClass.runbook.diagnose)}
        |- *Fix.* ${quoted(errorClass.runbook.fix)}
        |""".stripMargin

  /** Parameters outside of code as code, so that they are not read as HTML. */
  private def quoted(text: String): String =
    text
      .split("`", -1)
      .zipWithIndex
      .map {
        case (code, i) if i % 2 == 1 => s"`$code`"
        case (prose, _)              => prose.replaceAll("<([A-Za-z]+)>", "`<$1>`")
      }
      .mkString
}
