package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Node, NodeSeq}

import jakarta.servlet.http.HttpServletRequest
import org.json4s._

import io.cleancut.history.EpochRecord

/** The epochs of one query: how long they took, and why some took longer. */
final private[ui] class EpochsPage(tab: CutsTab) extends CutsPage(tab, "query") {
  import EpochsPage._

  override def render(request: HttpServletRequest): Seq[Node] = {
    val location = parameter(request, "location").getOrElse("")
    store.run(location) match {
      case None      => nothing(request, s"No query has its checkpoint at '$location' here.")
      case Some(run) =>
        val epochs = store.epochs(location)
        val name = run.facts.flatMap(_.name).getOrElse(run.facts.fold(location)(_.queryId))
        page(request, s"Cuts of $name") {
          ways(request, location, "query") ++ overview(run, epochs) ++
            history(request, location, epochs)
        }
    }
  }

  private def overview(run: RunEntry, epochs: Seq[EpochEntry]): NodeSeq = {
    val last = epochs.lastOption
    val record = last.flatMap(_.record.toOption)
    val known = run.facts.toSeq.flatMap { facts =>
      Seq(
        "mode" -> s"${facts.mode}, ${facts.trigger}",
        "run" -> s"${facts.runId}, since ${Figures.moment(facts.begunMs)}"
      )
    }
    val ofLast = last.toSeq.flatMap { of =>
      Seq(
        "last cut" -> s"epoch ${of.epoch}, ${Figures.moment(of.writtenMs)}",
        "it took" -> s"${Figures.millis(of.durationMs)}, ${Figures.millis(of.gateMs)} in the gate",
        "in flight" -> s"${Figures.count(of.rowsInFlight)} rows",
        "generation of the owner" -> of.generation.toString
      )
    }
    val pace = DailyPace.of(run.location, epochs).toSeq.map(of => "costs" -> of.explained)
    val restorable = Seq("last proven restorable" -> proven(run.location, last))
    val ofOperators = record.toSeq.flatMap(operators)
    val facts =
      ("checkpoint" -> run.location) +: (known ++ ofLast ++ restorable ++ pace ++ ofOperators)
    Figures.facts(facts.map { case (what, value) => what -> Figures.text(value) }: _*)
  }

  private def operators(record: EpochRecord): Seq[(String, String)] =
    record.aligned.toSeq.sorted.map { case (of, why) => s"operator $of is aligned" -> why } ++
      record.rowsBeyondBound.toSeq.sorted.map { case (of, rows) =>
        s"operator $of is overloaded" ->
          (s"${Figures.count(rows)} rows did not stay in flight, because its channels may keep " +
            "no more than maxInFlightBytes")
      }

  private def history(
      request: HttpServletRequest,
      location: String,
      epochs: Vector[EpochEntry]
  ): NodeSeq = {
    def toEpoch(of: EpochEntry) = linkToEpoch(request, location, of.epoch)
    val asked = parameter(request, "sort").filter(Columns.map(_.key).contains).getOrElse("epoch")
    val isUp = parameter(request, "order").contains("asc")
    val pages = Math.max(1, (epochs.size + PageSize - 1) / PageSize)
    val number =
      parameter(request, "page").flatMap(_.toIntOption).filter(of => of >= 1 && of <= pages)
    val at = number.getOrElse(1)
    val column = Columns.find(_.key == asked).get
    val sorted = if (isUp) epochs.sortBy(column.by) else epochs.sortBy(column.by).reverse
    val shown = sorted.slice((at - 1) * PageSize, at * PageSize)
    // What a page of the table shows, in the order of time.
    val drawn = shown.sortBy(_.epoch)
    def table(sort: String, order: String, page: Int) = link(
      request,
      "query",
      "location" -> location,
      "sort" -> sort,
      "order" -> order,
      "page" -> page.toString
    )
    <section><h2 id="epochs">Epochs</h2>
    <p>{Figures.count(epochs.size)} are shown here; the history of the checkpoint has more.</p> {
      Drawings.legend
    }
    {region("Timeline of epochs")(Drawings.timeline(drawn, toEpoch))}
    {
      region("Table of epochs")(<table>
      <thead><tr>{
        Columns.map { of =>
          val isSorted = of.key == asked
          val order = if (isSorted && !isUp) "asc" else "desc"
          val sort = if (!isSorted) "none" else if (isUp) "ascending" else "descending"
          <th scope="col" class={of.style} aria-sort={sort}><a href={table(of.key, order, 1)}>{
            of.title
          }</a>{if (!isSorted) "" else if (isUp) " ▲" else " ▼"}</th>
        }
      }</tr></thead>
      <tbody>{
        shown.map { of =>
          <tr><th scope="row" class="n"><a href={toEpoch(of)}>{of.epoch}</a></th>{
            Columns.drop(1).map(column => <td class={column.style}>{column.shown(of)}</td>)
          }</tr>
        }
      }</tbody>
    </table>)
    }
    <nav class="ways" aria-label="Pages of epochs">{
      if (pages == 1) NodeSeq.Empty
      else
        <span>page {at} of {pages} </span> ++
          (if (at > 1) <a href={table(asked, if (isUp) "asc" else "desc", at - 1)}>before</a>
           else NodeSeq.Empty) ++
          (if (at < pages) <a href={table(asked, if (isUp) "asc" else "desc", at + 1)}>after</a>
           else NodeSeq.Empty)
    }</nav></section>
  }

  override def renderJson(request: HttpServletRequest): JValue =
    JArray(store.epochs(parameter(request, "location").getOrElse("")).toList.map { of =>
      JObject(
        "epoch" -> JInt(of.epoch),
        "generation" -> JInt(of.generation),
        "durationMs" -> JInt(of.durationMs),
        "gateMs" -> JInt(of.gateMs),
        "cutMs" -> JInt(of.cutMs),
        "rowsInFlight" -> JInt(of.rowsInFlight),
        "requests" -> JInt(of.requests),
        "slow" -> (if (of.slowKind.isEmpty) JNothing else JString(of.slowKind))
      )
    })
}

private[ui] object EpochsPage {
  private val PageSize = 120

  /** @param by what it is sorted by */
  final private case class Column(
      key: String,
      title: String,
      style: String,
      by: EpochEntry => Long,
      shown: EpochEntry => String
  )

  private val Columns = Seq(
    Column("epoch", "epoch", "n", _.epoch, _.epoch.toString),
    Column("written", "committed", "t", _.writtenMs, of => Figures.moment(of.writtenMs)),
    Column("duration", "it took", "n", _.durationMs, of => Figures.millis(of.durationMs)),
    Column(
      "slow",
      "why it was slow",
      "told",
      of => if (of.slowKind.isEmpty) 0L else of.durationMs - of.typicalMs,
      of => of.slow.fold("")(why => s"${why.kind}: ${why.detail}")
    ),
    Column("gate", "gate", "n", _.gateMs, of => Figures.millis(of.gateMs)),
    Column("alignment", "alignment", "n", _.alignmentMs, of => Figures.millis(of.alignmentMs)),
    Column("cut", "write of the cut", "n", _.cutMs, of => Figures.millis(of.cutMs)),
    Column("rows", "rows read", "n", _.rows, of => Figures.count(of.rows)),
    Column("inFlight", "in flight", "n", _.rowsInFlight, of => Figures.count(of.rowsInFlight)),
    Column("requests", "requests", "n", _.requests, of => Figures.count(of.requests)),
    Column("sent", "sent", "n", _.bytesSent, of => Figures.bytes(of.bytesSent)),
    Column("run", "run", "n", _.generation, _.generation.toString)
  )

  def median(of: Seq[Long]): Long = if (of.isEmpty) -1L else of.sorted.apply(of.size / 2)
}
