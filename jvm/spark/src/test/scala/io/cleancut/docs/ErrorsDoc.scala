package io.cleancut.docs

import io.cleancut.error.{ErrorCatalog, ErrorClass, ErrorKind}

/** Renders the error classes as `docs/reference/errors.md`. */
object ErrorsDoc {

  def markdown: String = {
    val header =
      """|# Errors
         |
         |Generated from `cleancut-error-classes.json` by `make docs`. Every error of Cleancut
         |has an id, which never changes its meaning, and a kind, which says what to do next.
         |A message reads `[ID] problem. remedy. name=value …`.
         |
         || kind | next step |
         ||---|---|
         |""".stripMargin
    val kinds = ErrorKind.values.map(kind => s"| `${kind.name}` | ${kind.nextStep} |\n").mkString
    header + kinds + ErrorCatalog.classes.values.map(section).mkString
  }

  private def section(errorClass: ErrorClass): String =
    s"""|
        |## ${errorClass.id}
        |
        |Kind: `${errorClass.kind.name}`
        |
        |${errorClass.message}
        |${errorClass.remedy}
        |""".stripMargin
}
