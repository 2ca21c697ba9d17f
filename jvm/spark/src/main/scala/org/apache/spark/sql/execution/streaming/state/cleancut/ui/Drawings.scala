package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Elem, NodeSeq}

import io.cleancut.history.OperatorRecord

/** What pages draw: SVG without scripts, where each mark says in words what it stands for. */
private[ui] object Drawings {

  /**
   * A part of an epoch, from the bottom of its bar to the top.
   *
   * @param fill
   *   with 3:1 or more to white and to black
   */
  final case class Phase(name: String, fill: String, of: EpochEntry => Long)

  val Phases: Seq[Phase] = Seq(
    Phase("run", "#3b82f6", of => Math.max(0L, of.durationMs - of.gateMs - aligned(of))),
    Phase("alignment", "#a855f7", aligned),
    Phase("gate", "#c2740a", of => Math.min(of.gateMs, Math.max(0L, of.durationMs))),
    Phase("write of the cut", "#0f9b8e", _.cutMs)
  )

  private val Slow = "#e03131"
  private val (barWidth, tallest, below) = (8, 120, 18)
  private val (cellSize, cellsInRow) = (14, 64)

  private def aligned(of: EpochEntry): Long =
    Math.max(0L, Math.min(of.alignmentMs, of.durationMs - of.gateMs))

  def legend: NodeSeq = <p>{
    Phases.map(phase =>
      <span><span class="key" style={s"background:${phase.fill}"}></span>{
        phase.name
      }</span>
    )
  }<span><span class="key" style={s"background:$Slow;border-radius:50%"}></span>slow</span></p>

  /**
   * A bar for each epoch, from the left to the right.
   *
   * @param href
   *   where an epoch is shown
   */
  def timeline(epochs: Seq[EpochEntry], href: EpochEntry => String): Elem = {
    val highest = epochs.map(total).maxOption.getOrElse(0L).max(1L)
    val width = epochs.size * barWidth + 2
    <svg role="group" aria-label={
      s"Time of ${epochs.size} epochs; the highest bar is ${Figures.millis(highest)}"
    } width={width.toString} height={(tallest + below).toString}>{
      epochs.zipWithIndex.map { case (epoch, at) =>
        bar(epoch, at * barWidth + 1, highest, href(epoch))
      }
    }</svg>
  }

  private def total(of: EpochEntry): Long = Math.max(0L, of.durationMs) + of.cutMs

  private def bar(epoch: EpochEntry, x: Int, highest: Long, href: String): Elem = {
    val words = s"epoch ${epoch.epoch}: ${Figures.millis(epoch.durationMs)}" +
      epoch.slow.fold("")(why => s", slow: ${why.kind}")
    val tops = Phases.scanLeft(0.0)((y, phase) => y + phase.of(epoch).toDouble * tallest / highest)
    <a href={href} aria-label={words}><title>{words}</title><rect x={x.toString} y="10" width={
      (barWidth - 1).toString
    } height={(tallest + below - 14).toString} fill="transparent"></rect>{
      Phases.zip(tops.zip(tops.tail)).collect {
        case (phase, (from, to)) if to > from =>
          <rect x={x.toString} y={number(below - 4 + tallest - to)} width={
            (barWidth - 2).toString
          } height={number(Math.max(0.5, to - from))} fill={phase.fill}></rect>
      }
    }{
      epoch.slow.toSeq.map(_ =>
        <circle cx={(x + barWidth / 2 - 1).toString} cy="5" r="3" fill={Slow}></circle>
      )
    }</a>
  }

  /**
   * The partitions of an operator by a figure: the darker, the more.
   *
   * @param values
   *   of its cells
   * @param shown
   *   a value in words
   */
  def heat(of: OperatorRecord, values: Seq[Long], shown: Long => String): Elem = {
    val most = values.maxOption.getOrElse(0L).max(1L)
    val rows = (values.size + cellsInRow - 1) / cellsInRow
    val left = 52
    val columns = Math.min(values.size, cellsInRow)
    <svg role="img" aria-label={
      s"Operator ${of.operator}, ${of.partitions} partitions: at most ${shown(most)}, " +
        s"partition ${values.indexOf(values.max) * of.perCell}"
    } width={(left + columns * cellSize).toString} height={(rows * cellSize + 2).toString}>{
      (0 until rows).map { row =>
        <text x="0" y={(row * cellSize + 11).toString}>{
          (row * cellsInRow * of.perCell).toString
        }</text>
      }
    }{
      values.zipWithIndex.map { case (value, cell) =>
        val (x, y) = (left + cell % cellsInRow * cellSize, cell / cellsInRow * cellSize)
        val first = cell * of.perCell
        val last = Math.min(first + of.perCell, of.partitions) - 1
        val name = if (first == last) s"partition $first" else s"partitions $first to $last"
        <rect x={x.toString} y={y.toString} width={(cellSize - 2).toString} height={
          (cellSize - 2).toString
        } fill="#3b82f6" fill-opacity={
          number(0.08 + 0.92 * value / most)
        } stroke="#808080" stroke-opacity="0.4"><title>{
          s"$name: ${shown(value)}"
        }</title></rect>
      }
    }</svg>
  }

  private def number(of: Double): String =
    String.format(java.util.Locale.ROOT, "%.2f", Double.box(of))
}
