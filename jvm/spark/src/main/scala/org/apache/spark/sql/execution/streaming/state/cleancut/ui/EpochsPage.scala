package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Node, NodeSeq}

import jakarta.servlet.http.HttpServletRequest
import org.json4s._

import io.cleancut.history.{EpochPhase, EpochRecord}

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
        "run ID" -> s"${facts.runId}, since ${Figures.moment(facts.begunMs)}"
      )
    }
    val lastCut = last.toSeq.flatMap { epoch =>
      Seq(
        "last epoch" -> s"epoch ${epoch.epoch}, ${Figures.moment(epoch.writtenMs)}",
        "duration" -> (Figures.millis(epoch.tookMs) +
          epoch.longestPhase.fold("")(phase => s", of which $phase")),
        "in-flight rows" -> Figures.count(epoch.rowsInFlight),
        "run" -> s"generation ${epoch.generation}"
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
      s"${record.stages.operatorName(operator)} is aligned" -> reason
    } ++
      record.rowsBeyondBound.toSeq.sorted.map { case (operator, rows) =>
        s"${record.stages.operatorName(operator)} is overloaded" ->
          (s"${Figures.count(rows)} rows did not stay in flight, because " +
            "maxInFlightBytes limits them")
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
    <p>{Figures.count(epochs.size)} are shown here; the history of the checkpoint has all. {
      Terms.reasonsLink
    }</p>{growth(epochs)}{Drawings.legend}
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
            Terms(header.title)
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

  private def growth(epochs: Seq[EpochEntry]): NodeSeq =
    epochs.lastOption.map(_.growth).filter(_.nonEmpty).fold(NodeSeq.Empty) { text =>
      <p class="growth" role="status">{s"${text.capitalize}."}</p>
    }

  override def renderJson(request: HttpServletRequest): JValue =
    JArray(store.epochs(parameter(request, "location").getOrElse("")).toList.map { epoch =>
      JObject(
        "epoch" -> JInt(epoch.epoch),
        "generation" -> JInt(epoch.generation),
        "durationMs" -> JInt(epoch.durationMs),
        "tookMs" -> JInt(epoch.tookMs),
        "phases" -> JObject(EpochPhase.All.zip(epoch.phases).toList.map { case (phase, ms) =>
          phase.name -> JInt(ms)
        }),
        "gateMs" -> JInt(epoch.gateMs),
        "cutMs" -> JInt(epoch.cutMs),
        "cutLagMs" -> JInt(epoch.cutLagMs),
        "rowsInFlight" -> JInt(epoch.rowsInFlight),
        "requests" -> JInt(epoch.requests),
        "growth" -> (if (epoch.growth.isEmpty) JNothing else JString(epoch.growth)),
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
    Column("duration", "duration", "n", _.tookMs, epoch => Figures.millis(epoch.tookMs)),
    Column(
      "slow",
      "reason if slow",
      "reason",
      epoch => if (epoch.slowKind.isEmpty) 0L else epoch.tookMs - epoch.typicalMs,
      epoch => epoch.slow.fold("")(slow => s"${slow.kind}: ${slow.detail}")
    ),
    Column(
      "phase",
      "longest phase",
      "t",
      epoch => epoch.phases.max,
      epoch => epoch.longestPhase.getOrElse("–")
    ),
    Column(
      "alignment",
      "alignment",
      "n",
      _.alignmentMs,
      epoch => Figures.millis(epoch.alignmentMs)
    ),
    Column("rows", "rows read", "n", _.rows, epoch => Figures.count(epoch.rows)),
    Column(
      "inFlight",
      "in-flight rows",
      "n",
      _.rowsInFlight,
      epoch => Figures.count(epoch.rowsInFlight)
    ),
    Column("commit", "commit", "n", _.commitMs, epoch => Figures.millis(epoch.commitMs)),
    Column("requests", "requests", "n", _.requests, epoch => Figures.count(epoch.requests)),
    Column(
      "cost",
      "cost of requests",
      "n",
      epoch => (epoch.dollars * 1e9).round,
      epoch => if (epoch.location.startsWith("s3")) Figures.smallDollars(epoch.dollars) else "–"
    ),
    Column("sent", "bytes sent", "n", _.bytesSent, epoch => Figures.bytes(epoch.bytesSent)),
    Column("run", "run", "n", _.generation, _.generation.toString)
  )

  def median(values: Seq[Long]): Long =
    if (values.isEmpty) -1L else values.sorted.apply(values.size / 2)
}
