package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Elem, NodeSeq}

import io.cleancut.history.OperatorRecord

/** SVG drawings without scripts. Each mark has a text that describes it. */
private[ui] object Drawings {

  /**
   * A part of an epoch, in the order from bottom to top of its bar.
   *
   * @param fill
   *   color with a contrast of at least 3:1 to white and to black
   */
  final case class Phase(name: String, fill: String, durationMs: EpochEntry => Long)

  val Phases: Seq[Phase] = Seq(
    Phase(
      "run",
      "#3b82f6",
      epoch => Math.max(0L, epoch.durationMs - epoch.gateMs - aligned(epoch))
    ),
    Phase("alignment", "#a855f7", aligned),
    Phase("commit", "#c2740a", epoch => Math.min(epoch.gateMs, Math.max(0L, epoch.durationMs))),
    Phase("write of the cut", "#0f9b8e", _.cutMs)
  )

  private val Slow = "#e03131"
  private val (barWidth, barHeight, marginHeight) = (8, 120, 18)
  private val (cellSize, cellsInRow) = (14, 64)

  private def aligned(epoch: EpochEntry): Long =
    Math.max(0L, Math.min(epoch.alignmentMs, epoch.durationMs - epoch.gateMs))

  def legend: NodeSeq = <p>{
    Phases.map(phase =>
      <span><span class="key" style={s"background:${phase.fill}"}></span>{
        phase.name
      }</span>
    )
  }<span><span class="key" style={s"background:$Slow;border-radius:50%"}></span>slow</span></p>

  /**
   * A bar for each epoch, from left to right.
   *
   * @param href
   *   returns the URL of an epoch
   */
  def timeline(epochs: Seq[EpochEntry], href: EpochEntry => String): Elem = {
    val highest = epochs.map(total).maxOption.getOrElse(0L).max(1L)
    val width = epochs.size * barWidth + 2
    <svg role="group" aria-label={
      s"Time of ${epochs.size} epochs; the highest bar is ${Figures.millis(highest)}"
    } width={width.toString} height={(barHeight + marginHeight).toString}>{
      epochs.zipWithIndex.map { case (epoch, index) =>
        bar(epoch, index * barWidth + 1, highest, href(epoch))
      }
    }</svg>
  }

  private def total(epoch: EpochEntry): Long = Math.max(0L, epoch.durationMs) + epoch.cutMs

  private def bar(epoch: EpochEntry, x: Int, highest: Long, href: String): Elem = {
    val text = s"epoch ${epoch.epoch}: ${Figures.millis(epoch.durationMs)}" +
      epoch.slow.fold("")(reason => s", slow: ${reason.kind}")
    val tops =
      Phases.scanLeft(0.0)((y, phase) => y + phase.durationMs(epoch).toDouble * barHeight / highest)
    <a href={href} aria-label={text}><title>{text}</title><rect x={x.toString} y="10" width={
      (barWidth - 1).toString
    } height={(barHeight + marginHeight - 14).toString} fill="transparent"></rect>{
      Phases.zip(tops.zip(tops.tail)).collect {
        case (phase, (from, to)) if to > from =>
          <rect x={x.toString} y={number(marginHeight - 4 + barHeight - to)} width={
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
   * The partitions of an operator by a value; a darker cell has a greater value.
   *
   * @param values
   *   values of the cells
   * @param shown
   *   formats a value
   */
  def heat(operator: OperatorRecord, values: Seq[Long], format: Long => String): Elem = {
    val maximum = values.maxOption.getOrElse(0L).max(1L)
    val rows = (values.size + cellsInRow - 1) / cellsInRow
    val left = 52
    val columns = Math.min(values.size, cellsInRow)
    <svg role="img" aria-label={
      s"Operator ${operator.operator}, ${operator.partitions} partitions: at most " +
        s"${format(maximum)}, partition ${values.indexOf(values.max) * operator.perCell}"
    } width={(left + columns * cellSize).toString} height={(rows * cellSize + 2).toString}>{
      (0 until rows).map { row =>
        <text x="0" y={(row * cellSize + 11).toString}>{
          (row * cellsInRow * operator.perCell).toString
        }</text>
      }
    }{
      values.zipWithIndex.map { case (value, cell) =>
        val (x, y) = (left + cell % cellsInRow * cellSize, cell / cellsInRow * cellSize)
        val first = cell * operator.perCell
        val last = Math.min(first + operator.perCell, operator.partitions) - 1
        val name = if (first == last) s"partition $first" else s"partitions $first to $last"
        <rect x={x.toString} y={y.toString} width={(cellSize - 2).toString} height={
          (cellSize - 2).toString
        } fill="#3b82f6" fill-opacity={
          number(0.08 + 0.92 * value / maximum)
        } stroke="#808080" stroke-opacity="0.4"><title>{
          s"$name: ${format(value)}"
        }</title></rect>
      }
    }</svg>
  }

  private def number(value: Double): String =
    String.format(java.util.Locale.ROOT, "%.2f", Double.box(value))
}
