package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Node, NodeSeq}

import jakarta.servlet.http.HttpServletRequest
import org.json4s._

import io.cleancut.coordinator.driver.ParkedRun

/** All queries of an application that commit their epochs with cuts. */
final private[ui] class QueriesPage(tab: CutsTab) extends CutsPage(tab, "") {

  override def render(request: HttpServletRequest): Seq[Node] = page(request, "Cuts") {
    tab.live().parked().sortBy(_.location).map(parked) ++ queries(request)
  }

  private def parked(run: ParkedRun): Node = {
    val role = if (run.isStandby) "standby" else "successor"
    <p role="status">{
      s"A $role at ${run.location} has waited since ${Figures.moment(run.sinceMs)}. " +
        "It runs no epoch until it takes over."
    }</p>
  }

  private def queries(request: HttpServletRequest): NodeSeq = {
    val runs = store.runs.sortBy(_.location)
    if (runs.isEmpty)
      <p role="status">No query has committed an epoch with a cut yet. Cuts are used if the
        checkpoint location is on s3://, or if the key cuts is set. {Terms.docsLink}</p>
    else
      region("Queries")(<table>
        <thead><tr>
          {header("query")}{header("mode")}{header("epoch", "n")}{header("committed")}
          {header("duration", "n")}{header("median", "n")}{header("longest phase")}
          {header("in-flight rows", "n")}{header("slow", "n")}{header("run", "n")}
          {header("requests per day", "n")}{header("S3 cost per day", "n")}
          {header("last restore test")}{header("checkpoint")}
        </tr></thead>
        <tbody>{runs.flatMap(row(request, _))}</tbody>
      </table>) ++ <p>{Terms.docsLink}</p>
  }

  private def row(request: HttpServletRequest, run: RunEntry): NodeSeq = {
    val epochs = store.epochs(run.location)
    val facts = run.facts
    epochs.lastOption.fold(NodeSeq.Empty) { last =>
      val pace = DailyPace.of(run.location, epochs)
      <tr>
        <th scope="row"><a href={link(request, "query", "location" -> run.location)}>{
        facts.flatMap(_.name).getOrElse(facts.fold("")(_.queryId))
      }</a></th>
        <td>{facts.fold("")(_.mode)}</td>
        <td class="n">{last.epoch}</td>
        <td class="t">{Figures.moment(last.writtenMs)}</td>
        <td class="n">{Figures.millis(last.tookMs)}</td>
        <td class="n">{
        Figures.millis(EpochsPage.median(epochs.map(_.tookMs).filter(_ >= 0)))
      }</td>
        <td class="t">{last.longestPhase.getOrElse("–")}</td>
        <td class="n">{Figures.count(last.rowsInFlight)}</td>
        <td class="n">{epochs.count(_.slowKind.nonEmpty)} of {epochs.size}</td>
        <td class="n">{last.generation}</td>
        <td class="n">{pace.fold("–")(daily => Figures.count(daily.requests))}</td>
        <td class="n">{pace.fold("–")(_.dollars)}</td>
        <td class="t">{proven(run.location, Some(last))}</td>
        <td class="path">{run.location}</td>
      </tr>
    }
  }

  override def renderJson(request: HttpServletRequest): JValue =
    JArray(store.runs.sortBy(_.location).toList.map { run =>
      val last = store.epochs(run.location).lastOption
      JObject(
        "location" -> JString(run.location),
        "committed" -> last.fold[JValue](JNothing)(epoch => JInt(epoch.epoch)),
        "proven" -> JString(proven(run.location, last)),
        "storedBytes" -> last.fold[JValue](JNothing)(epoch => JInt(epoch.storedBytes)),
        "run" -> jackson.JsonMethods.parse(run.run)
      )
    })
}
