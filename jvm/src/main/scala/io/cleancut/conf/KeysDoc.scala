package io.cleancut.conf

/** Renders [[Keys]] for people: a file to start from, and the reference page. */
object KeysDoc {

  /**
   * `conf/cleancut-defaults.conf`, in the syntax of spark-defaults.conf, every key commented out.
   */
  def defaultsConf: String = {
    val header =
      """|# Every configuration key of Cleancut with its default. Generated from Keys.scala: make docs.
         |# Copy the lines that you want to change to spark-defaults.conf and remove their #.
         |""".stripMargin
    header + Keys.all.map(confEntry).mkString
  }

  private def confEntry(key: Key[_]): String = {
    val comment = wrap(key.doc, DocWidth).map(line => s"# $line\n").mkString
    s"\n$comment# Unit: ${key.keyType.unit}, ${key.keyType.allowed}. Since ${key.since}.\n" +
      s"# ${key.name} ${key.defaultText}\n"
  }

  /** `docs/reference/configuration.md`. */
  def markdown: String = {
    val header =
      s"""|# Configuration
          |
          |Generated from `Keys.scala` by `make docs`. All keys begin with `${Keys.Prefix}`.
          |An unknown key below this prefix, or a value out of its range, fails the query at its start;
          |all problems are reported together. Spark's own keys for state stores hold as they stand:
          |`minDeltasForSnapshot`, `maxVersionsToRetainInMemory`, `minBatchesToRetain`, `maintenanceInterval`.
          |
          || key | default | unit | allowed | since |
          ||---|---|---|---|---|
          |""".stripMargin
    header + Keys.all.map(tableRow).mkString + Keys.all.map(section).mkString
  }

  private def tableRow(key: Key[_]): String =
    s"| `${key.shortName}` | `${key.defaultText}` | ${key.keyType.unit} " +
      s"| ${key.keyType.allowed} | ${key.since} |\n"

  private def section(key: Key[_]): String =
    s"\n## `${key.shortName}`\n\n${wrap(key.doc, DocWidth).mkString("\n")}\n"

  private val DocWidth = 98

  private def wrap(text: String, width: Int): Seq[String] =
    text
      .split(' ')
      .foldLeft(List("")) { (lines, word) =>
        if (lines.head.isEmpty) word :: lines.tail
        else if (lines.head.length + 1 + word.length <= width) s"${lines.head} $word" :: lines.tail
        else word :: lines
      }
      .reverse
}
