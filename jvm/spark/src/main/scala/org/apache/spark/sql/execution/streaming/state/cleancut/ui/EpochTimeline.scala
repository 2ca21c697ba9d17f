package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import java.util.Locale

import scala.xml.NodeSeq

import io.cleancut.history.{EpochPhase, EpochRecord, StageRecord}

/** One epoch from left to right: its phases, its stages and a scale. Fits any width. */
private[ui] object EpochTimeline {

  /** The timeline of a record whose duration is known. */
  def apply(record: EpochRecord): NodeSeq =
    record.tookMs.filter(_ > 0).fold(NodeSeq.Empty)(drawn(record, _))

  private def drawn(record: EpochRecord, took: Long): NodeSeq =
    <div class="timeline">
      <div class="bar" role="img" aria-label={label(record)}>{
      Drawings.Phases.map { drawn =>
        val ms = record.phaseMs(drawn.phase)
        if (ms <= 0) NodeSeq.Empty
        else
          <span title={s"${drawn.phase.name}: ${Figures.millis(ms)}"} style={
            s"width:${percent(ms, took)};background:${drawn.fill}"
          }></span>
      }
    }</div>
      {scale(took)}
      {record.stages.stages.map(stage(_, took))}
    </div>

  private def label(record: EpochRecord): String =
    EpochPhase.All
      .map(phase => phase -> record.phaseMs(phase))
      .collect { case (phase, ms) if ms > 0 => s"${phase.name} ${Figures.millis(ms)}" }
      .mkString("Phases: ", ", ", "")

  private def scale(tookMs: Long): NodeSeq = {
    val step = Scale.step(tookMs, Ticks)
    <div class="scale" aria-hidden="true">{
      (0L to tookMs by step).map { ms =>
        <span style={s"left:${percent(ms, tookMs)}"}>{Scale.text(ms, step)}</span>
      }
    }</div>
  }

  private def stage(stage: StageRecord, tookMs: Long): NodeSeq = {
    val fill = Drawings.Phases.find(_.phase.name == stage.phase).fold("#808080")(_.fill)
    val text = s"${stage.description}: ${Figures.millis(stage.ms)}"
    <div class="stage"><span class="block" style={
      s"margin-left:${percent(Math.min(stage.startMs, tookMs), tookMs)};" +
        s"width:${percent(Math.min(stage.ms, tookMs), tookMs)};background:$fill"
    }></span><small>{text}</small></div>
  }

  private def percent(ms: Long, totalMs: Long): String =
    String.format(Locale.ROOT, "%.2f%%", Double.box(100.0 * ms / totalMs))

  private val Ticks = 5
}

/** Round numbers for the scale of an axis. */
private[ui] object Scale {

  /** The smallest round step with which at most so many steps fit into a time. */
  def step(ms: Long, steps: Int): Long = {
    val powers = Iterator.iterate(1L)(_ * 10)
    powers.flatMap(power => Seq(1, 2, 5).map(_ * power)).find(step => ms <= step * steps).get
  }

  /** A time with its unit, which fits the step. */
  def text(ms: Long, step: Long): String =
    if (ms == 0) "0"
    else if (step >= 1000) s"${Figures.count(ms / 1000)} s"
    else if (step >= 100)
      String.format(Locale.ROOT, "%.1f s", Double.box(ms / 1000.0))
    else s"$ms ms"
}
