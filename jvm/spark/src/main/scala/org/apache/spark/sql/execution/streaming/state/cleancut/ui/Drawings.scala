package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Elem, NodeSeq}

import io.cleancut.history.{EpochPhase, OperatorRecord}

/** SVG drawings without scripts. Each mark has a text that describes it. */
private[ui] object Drawings {

  /**
   * A phase of an epoch, in the order from bottom to top of its bar.
   *
   * @param fill
   *   color with a contrast of at least 3:1 to white and to black
   */
  final case class Drawn(phase: EpochPhase, fill: String)

  val Phases: Seq[Drawn] = {
    val fills =
      Seq("#0f9b8e", "#7a8291", "#3b82f6", "#a855f7", "#d6409f", "#c2740a", "#808080")
    EpochPhase.All.zip(fills).map { case (phase, fill) => Drawn(phase, fill) }
  }

  private val Slow = "#e03131"
  private val (barWidth, barHeight, marginHeight) = (8, 120, 18)
  private val (axisWidth, steps) = (46, 4)
  private val (cellSize, cellsInRow) = (14, 64)

  def legend: NodeSeq = <p class="legend">{
    Phases.map(drawn =>
      <span><span class="key" style={s"background:${drawn.fill}"}></span>{
        Terms(drawn.phase.name)
      }</span>
    )
  }<span><span class="key" style={s"background:$Slow;border-radius:50%"}></span>{
    Terms("slow")
  }</span></p>

  /**
   * A bar for each epoch, from left to right.
   *
   * @param href
   *   returns the URL of an epoch
   */
  def timeline(epochs: Seq[EpochEntry], href: EpochEntry => String): Elem = {
    val highest = epochs.map(_.tookMs).maxOption.getOrElse(0L).max(1L)
    val width = axisWidth + epochs.size * barWidth + 2
    <svg role="group" aria-label={
      s"Duration of ${epochs.size} epochs; the highest bar is ${Figures.millis(highest)}"
    } width={width.toString} height={(barHeight + marginHeight).toString}>{
      axis(highest, width)
    }{
      epochs.zipWithIndex.map { case (epoch, index) =>
        bar(epoch, axisWidth + index * barWidth + 1, highest, href(epoch))
      }
    }</svg>
  }

  private def axis(highest: Long, width: Int): NodeSeq = {
    val step = Scale.step(highest, steps)
    (0L to highest by step).flatMap { ms =>
      val y = number(marginHeight - 4 + barHeight - ms.toDouble * barHeight / highest)
      <line x1={axisWidth.toString} x2={width.toString} y1={y} y2={
        y
      } stroke="#808080" stroke-opacity="0.35"></line> ++
        <text x={(axisWidth - 4).toString} y={y} text-anchor="end" dominant-baseline="middle">{
          Scale.text(ms, step)
        }</text>
    }
  }

  private def bar(epoch: EpochEntry, x: Int, highest: Long, href: String): Elem = {
    val longest = epoch.longestPhase.fold("")(text => s", $text")
    val text = s"epoch ${epoch.epoch}: ${Figures.millis(epoch.tookMs)}$longest" +
      epoch.slow.fold("")(reason => s", slow: ${reason.kind}")
    val tops = Phases.zipWithIndex.scanLeft(0.0) { case (y, (_, index)) =>
      y + epoch.phases(index).toDouble * barHeight / highest
    }
    <a href={href} aria-label={text}><title>{text}</title><rect x={x.toString} y="10" width={
      (barWidth - 1).toString
    } height={(barHeight + marginHeight - 14).toString} fill="transparent"></rect>{
      Phases.zip(tops.zip(tops.tail)).collect {
        case (drawn, (from, to)) if to > from =>
          <rect x={x.toString} y={number(marginHeight - 4 + barHeight - to)} width={
            (barWidth - 2).toString
          } height={number(Math.max(0.5, to - from))} fill={drawn.fill}></rect>
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
