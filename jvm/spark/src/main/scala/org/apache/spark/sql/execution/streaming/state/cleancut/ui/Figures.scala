package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import java.time.{Instant, ZoneOffset}
import java.time.format.DateTimeFormatter
import java.util.Locale

import scala.xml.{NodeSeq, Text}

/** Figures as pages show them. */
private[ui] object Figures {
  private val Moment =
    DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss", Locale.ROOT).withZone(ZoneOffset.UTC)

  def moment(ms: Long): String = s"${Moment.format(Instant.ofEpochMilli(ms))} UTC"

  def count(of: Long): String = String.format(Locale.ROOT, "%,d", Long.box(of))

  /** -1 is nothing. */
  def millis(ms: Long): String = if (ms < 0) "–" else s"${count(ms)} ms"

  def bytes(of: Long): String = {
    val units = Seq("B", "KiB", "MiB", "GiB", "TiB")
    val power = units.indices.lastIndexWhere(at => of >= (1L << (10 * at))).max(0)
    if (power == 0) s"$of B"
    else
      String.format(
        Locale.ROOT,
        "%.1f %s",
        Double.box(of.toDouble / (1L << (10 * power))),
        units(power)
      )
  }

  def dollars(of: Double): String = String.format(Locale.ROOT, "$%.2f", Double.box(of))

  /** Names with values, for people. */
  def facts(of: (String, NodeSeq)*): NodeSeq =
    <dl>{of.map { case (name, value) => <dt>{name}</dt><dd>{value}</dd> }}</dl>

  def text(of: String): NodeSeq = Text(of)
}
