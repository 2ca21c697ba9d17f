package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import java.time.{Instant, ZoneOffset}
import java.time.format.DateTimeFormatter
import java.util.Locale

import scala.xml.{NodeSeq, Text}

/** Formats values for the pages. */
private[ui] object Figures {
  private val Moment =
    DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss", Locale.ROOT).withZone(ZoneOffset.UTC)

  def moment(ms: Long): String = s"${Moment.format(Instant.ofEpochMilli(ms))} UTC"

  def count(value: Long): String = String.format(Locale.ROOT, "%,d", Long.box(value))

  /** -1 is no value. */
  def millis(ms: Long): String = if (ms < 0) "–" else s"${count(ms)} ms"

  def bytes(value: Long): String = {
    val units = Seq("B", "KiB", "MiB", "GiB", "TiB")
    val power = units.indices.lastIndexWhere(unit => value >= (1L << (10 * unit))).max(0)
    if (power == 0) s"$value B"
    else
      String.format(
        Locale.ROOT,
        "%.1f %s",
        Double.box(value.toDouble / (1L << (10 * power))),
        units(power)
      )
  }

  def dollars(value: Double): String = String.format(Locale.ROOT, "$%.2f", Double.box(value))

  /** An amount of a single epoch, which is a small part of a cent. */
  def smallDollars(value: Double): String =
    if (value <= 0) "–" else String.format(Locale.ROOT, "$%.6f", Double.box(value))

  /** A list of names with values. */
  def facts(values: (String, NodeSeq)*): NodeSeq =
    <dl>{values.map { case (name, value) => <dt>{Terms(name)}</dt><dd>{value}</dd> }}</dl>

  def text(content: String): NodeSeq = Text(content)
}
