package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Node, NodeSeq}

import jakarta.servlet.http.HttpServletRequest
import org.json4s._

import io.cleancut.history.EpochRecord

/** The epochs of one query: their durations, and the reasons of slow ones. */
final private[ui] class EpochsPage(tab: CutsTab) extends CutsPage(tab, "query") {
  import EpochsPage._

  override def render(request: HttpServletRequest): Seq[Node] = {
    val location = parameter(request, "location").getOrElse("")
    store.run(location) match {
      case None      => message(request, s"The query at '$location' is unknown here.")
      case Some(run) =>
        val epochs = store.epochs(location)
        val name = run.facts.flatMap(_.name).getOrElse(run.facts.fold(location)(_.queryId))
        page(request, s"Cuts of $name") {
          navigation(request, location, "query") ++ overview(run, epochs) ++
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
    val lastCut = last.toSeq.flatMap { epoch =>
      Seq(
        "last cut" -> s"epoch ${epoch.epoch}, ${Figures.moment(epoch.writtenMs)}",
        "duration" -> Figures.millis(epoch.durationMs),
        "commit" -> Figures.millis(epoch.gateMs),
        "in flight" -> s"${Figures.count(epoch.rowsInFlight)} rows",
        "generation of the owner" -> epoch.generation.toString
      )
    }
    val pace = DailyPace.of(run.location, epochs).toSeq.map(daily => "costs" -> daily.explained)
    val restoreTest = Seq("last restore test" -> proven(run.location, last))
    val operatorFacts = record.toSeq.flatMap(operators)
    val facts =
      ("checkpoint" -> run.location) +: (known ++ lastCut ++ restoreTest ++ pace ++ operatorFacts)
    Figures.facts(facts.map { case (name, value) => name -> Figures.text(value) }: _*)
  }

  private def operators(record: EpochRecord): Seq[(String, String)] =
    record.aligned.toSeq.sorted.map { case (operator, reason) =>
      s"operator $operator is aligned" -> reason
    } ++
      record.rowsBeyondBound.toSeq.sorted.map { case (operator, rows) =>
        s"operator $operator is overloaded" ->
          (s"${Figures.count(rows)} rows did not stay in flight, because its channels are " +
            "limited to maxInFlightBytes")
      }

  private def history(
      request: HttpServletRequest,
      location: String,
      epochs: Vector[EpochEntry]
  ): NodeSeq = {
    def epochLink(epoch: EpochEntry) = linkToEpoch(request, location, epoch.epoch)
    val sortKey = parameter(request, "sort").filter(Columns.map(_.key).contains).getOrElse("epoch")
    val isAscending = parameter(request, "order").contains("asc")
    val direction = if (isAscending) "asc" else "desc"
    val pages = Math.max(1, (epochs.size + PageSize - 1) / PageSize)
    val number =
      parameter(request, "page").flatMap(_.toIntOption).filter(page => page >= 1 && page <= pages)
    val page = number.getOrElse(1)
    val column = Columns.find(_.key == sortKey).get
    val sorted = if (isAscending) epochs.sortBy(column.by) else epochs.sortBy(column.by).reverse
    val shown = sorted.slice((page - 1) * PageSize, page * PageSize)
    // The epochs of the visible table page, in the order of time.
    val drawn = shown.sortBy(_.epoch)
    def tableLink(sort: String, order: String, to: Int) = link(
      request,
      "query",
      "location" -> location,
      "sort" -> sort,
      "order" -> order,
      "page" -> to.toString
    )
    <section><h2 id="epochs">Epochs</h2>
    <p>{Figures.count(epochs.size)} are shown here; the history of the checkpoint has all.</p> {
      Drawings.legend
    }
    {region("Timeline of epochs")(Drawings.timeline(drawn, epochLink))}
    {
      region("Table of epochs")(<table>
      <thead><tr>{
        Columns.map { header =>
          val isSorted = header.key == sortKey
          val order = if (isSorted && !isAscending) "asc" else "desc"
          val sort = if (!isSorted) "none" else if (isAscending) "ascending" else "descending"
          val href = tableLink(header.key, order, 1)
          <th scope="col" class={header.style} aria-sort={sort}><a href={href}>{
            header.title
          }</a>{if (!isSorted) "" else if (isAscending) " ▲" else " ▼"}</th>
        }
      }</tr></thead>
      <tbody>{
        shown.map { epoch =>
          <tr><th scope="row" class="n"><a href={epochLink(epoch)}>{epoch.epoch}</a></th>{
            Columns.drop(1).map(column => <td class={column.style}>{column.format(epoch)}</td>)
          }</tr>
        }
      }</tbody>
    </table>)
    }
    <nav class="links" aria-label="Pages of epochs">{
      if (pages == 1) NodeSeq.Empty
      else
        <span>page {page} of {pages} </span> ++
          (if (page > 1) <a href={tableLink(sortKey, direction, page - 1)}>previous</a>
           else NodeSeq.Empty) ++
          (if (page < pages) <a href={tableLink(sortKey, direction, page + 1)}>next</a>
           else NodeSeq.Empty)
    }</nav></section>
  }

  override def renderJson(request: HttpServletRequest): JValue =
    JArray(store.epochs(parameter(request, "location").getOrElse("")).toList.map { epoch =>
      JObject(
        "epoch" -> JInt(epoch.epoch),
        "generation" -> JInt(epoch.generation),
        "durationMs" -> JInt(epoch.durationMs),
        "gateMs" -> JInt(epoch.gateMs),
        "cutMs" -> JInt(epoch.cutMs),
        "rowsInFlight" -> JInt(epoch.rowsInFlight),
        "requests" -> JInt(epoch.requests),
        "slow" -> (if (epoch.slowKind.isEmpty) JNothing else JString(epoch.slowKind))
      )
    })
}

private[ui] object EpochsPage {
  private val PageSize = 120

  /**
   * @param by
   *   sort value
   */
  final private case class Column(
      key: String,
      title: String,
      style: String,
      by: EpochEntry => Long,
      format: EpochEntry => String
  )

  private val Columns = Seq(
    Column("epoch", "epoch", "n", _.epoch, _.epoch.toString),
    Column("written", "committed", "t", _.writtenMs, epoch => Figures.moment(epoch.writtenMs)),
    Column("duration", "duration", "n", _.durationMs, epoch => Figures.millis(epoch.durationMs)),
    Column(
      "slow",
      "reason if slow",
      "reason",
      epoch => if (epoch.slowKind.isEmpty) 0L else epoch.durationMs - epoch.typicalMs,
      epoch => epoch.slow.fold("")(slow => s"${slow.kind}: ${slow.detail}")
    ),
    Column("commit", "commit", "n", _.gateMs, epoch => Figures.millis(epoch.gateMs)),
    Column(
      "alignment",
      "alignment",
      "n",
      _.alignmentMs,
      epoch => Figures.millis(epoch.alignmentMs)
    ),
    Column("cut", "write of the cut", "n", _.cutMs, epoch => Figures.millis(epoch.cutMs)),
    Column("rows", "rows read", "n", _.rows, epoch => Figures.count(epoch.rows)),
    Column(
      "inFlight",
      "in-flight rows",
      "n",
      _.rowsInFlight,
      epoch => Figures.count(epoch.rowsInFlight)
    ),
    Column("requests", "requests", "n", _.requests, epoch => Figures.count(epoch.requests)),
    Column("sent", "sent", "n", _.bytesSent, epoch => Figures.bytes(epoch.bytesSent)),
    Column("run", "run", "n", _.generation, _.generation.toString)
  )

  def median(values: Seq[Long]): Long =
    if (values.isEmpty) -1L else values.sorted.apply(values.size / 2)
}
