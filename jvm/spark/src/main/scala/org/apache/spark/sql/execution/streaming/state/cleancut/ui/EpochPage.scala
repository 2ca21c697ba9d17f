package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Node, NodeSeq}

import jakarta.servlet.http.HttpServletRequest
import org.json4s._

import io.cleancut.history.{EpochRecord, EpochRecordJson, OperatorRecord}

/** One epoch: its phases, tasks, slowest stores and requests. */
final private[ui] class EpochPage(tab: CutsTab) extends CutsPage(tab, "epoch") {
  import EpochPage._

  override def render(request: HttpServletRequest): Seq[Node] = {
    val location = parameter(request, "location").getOrElse("")
    val epochs = store.epochs(location)
    val number = parameter(request, "epoch").flatMap(_.toLongOption)
    val entry = number.flatMap(requested => epochs.find(_.epoch == requested))
    entry.map(found => found -> found.record) match {
      case None =>
        val which = number.fold("without a number")(_.toString)
        message(request, s"Epoch $which of '$location' is unknown here; older epochs are deleted.")
      case Some((_, Left(reason)))      => message(request, s"The epoch cannot be shown: $reason.")
      case Some((entry, Right(record))) =>
        page(request, s"Epoch ${record.epoch}") {
          navigation(request, location, "epoch") ++ neighbors(request, location, record, epochs) ++
            slowReason(record) ++ growth(entry) ++ phases(record, epochs) ++ facts(record) ++
            tasks(request, location, record) ++ slowest(record) ++ requests(record)
        }
    }
  }

  private def neighbors(
      request: HttpServletRequest,
      location: String,
      record: EpochRecord,
      epochs: Seq[EpochEntry]
  ): NodeSeq = {
    def link(epoch: Option[EpochEntry], title: String) = epoch.fold(NodeSeq.Empty) { neighbor =>
      <a href={linkToEpoch(request, location, neighbor.epoch)}>{s"$title (${neighbor.epoch})"}</a>
    }
    <nav class="links" aria-label="Other epochs">{
      link(epochs.filter(_.epoch < record.epoch).lastOption, "previous epoch")
    } {link(epochs.find(_.epoch > record.epoch), "next epoch")}</nav>
  }

  private def slowReason(record: EpochRecord): NodeSeq = record.slow.fold(NodeSeq.Empty) { slow =>
    <p class="reason"><strong>Slow: {slow.kind}.</strong> {
      s"It took ${Figures.millis(record.tookMs.getOrElse(-1L))}, while " +
        s"${Figures.millis(slow.typicalMs)} is usual: ${slow.detail}."
    } {Terms.advice(slow.kind).getOrElse("")} {Terms.reasonsLink}</p>
  }

  private def facts(record: EpochRecord): NodeSeq = {
    val health = record.health
    val shown = Seq(
      Some("committed" -> Figures.moment(record.writtenMs)),
      record.cutLagMs.map("cut lag" -> Figures.millis(_)),
      Some("run" -> s"${record.run.runId}, generation ${record.run.generation}"),
      Some("state stores" -> Figures.count(record.stores)),
      Some("rows read" -> Figures.count(record.rows)),
      Some(
        "in-flight rows" -> (s"${Figures.count(record.rowsInFlight)} rows, " +
          Figures.bytes(record.bytesInFlight))
      ),
      record.barrierToCaptureMs.map("barrier to capture" -> Figures.millis(_)),
      Option.when(health.pauseMs > 0)("driver pauses" -> Figures.millis(health.pauseMs)),
      Option.when(health.repeatedTasks > 0)(
        "repeated task attempts" -> health.repeatedTasks.toString
      ),
      Option.when(health.executorsLost.nonEmpty)(
        "executors lost" -> health.executorsLost
          .map { case (id, reason) => s"$id ($reason)" }
          .mkString("; ")
      )
    ).flatten
    Figures.facts(shown.map { case (name, value) => name -> Figures.text(value) }: _*)
  }

  private def growth(entry: EpochEntry): NodeSeq =
    if (entry.growth.isEmpty) NodeSeq.Empty
    else <p class="growth" role="status">{s"${entry.growth.capitalize}."}</p>

  private def phases(record: EpochRecord, epochs: Seq[EpochEntry]): NodeSeq = {
    val others = epochs.filter(other =>
      other.generation == record.run.generation && other.epoch != record.epoch && other.tookMs >= 0
    )
    val took = record.tookMs.getOrElse(0L)
    <h2>Phases</h2> ++ EpochTimeline(record) ++ region("Phases")(<table>
      <thead><tr>{header("phase")}{header("duration", "n")}{header("share", "n")}{
      header("usual", "n")
    }</tr></thead>
      <tbody>{
      Drawings.Phases.zipWithIndex.map { case (drawn, index) =>
        val ms = record.phaseMs(drawn.phase)
        val share = if (took > 0) s"${Math.min(100L, 100 * ms / took)}%" else "–"
        <tr><th scope="row"><span class="key" style={s"background:${drawn.fill}"}></span>{
          Terms(drawn.phase.name)
        }</th><td class="n">{Figures.millis(ms)}</td><td class="n">{share}</td><td class="n">{
          Figures.millis(EpochsPage.median(others.map(_.phases(index))))
        }</td></tr>
      }
    }</tbody>
    </table>)
  }

  private def tasks(
      request: HttpServletRequest,
      location: String,
      record: EpochRecord
  ): NodeSeq = {
    val by =
      parameter(request, "by").flatMap(key => Measures.find(_.key == key)).getOrElse(Measures.head)
    val choices = Measures.map { measure =>
      val href = linkToEpoch(request, location, record.epoch, "by" -> measure.key)
      if (measure == by) <a aria-current="true" href={href}>{measure.title}</a>
      else <a href={href}>{measure.title}</a>
    }
    <section><h2>Operators and partitions</h2>
      <nav class="links" aria-label="Value for each partition">{choices}</nav>{
      record.operators.map(heat(record, _, by))
    }</section>
  }

  private def heat(record: EpochRecord, operator: OperatorRecord, by: Measure): NodeSeq = {
    val values = by.values(operator)
    val maximum = by.format(values.maxOption.getOrElse(0L))
    val name = record.stages.operatorName(operator.operator).capitalize
    val title = s"$name: ${operator.partitions} partitions, ${by.title} up to $maximum"
    <section><h3>{title}</h3>
      {
      region(title)(Drawings.heat(operator, values, by.format))
    }</section>
  }

  private def slowest(record: EpochRecord): NodeSeq = record.costs.fold(NodeSeq.Empty) { costs =>
    <h2>Slowest stores</h2> ++
      region("Slowest stores")(<table>
        <thead><tr><th scope="col">store</th><th scope="col">executor</th>
          <th scope="col" class="n">duration</th></tr></thead>
        <tbody>{
        costs.slowest.map { store =>
          <tr><th scope="row">{store.store.toString}</th>
            <td>{s"${store.executor} ${store.host}".trim}</td>
            <td class="n">{Figures.millis(store.ms)}</td></tr>
        }
      }</tbody>
      </table>)
  }

  private def requests(record: EpochRecord): NodeSeq = record.costs.fold(NodeSeq.Empty) { costs =>
    val sides = Seq("driver" -> costs.driver, "executors" -> costs.executors)
    <h2>Requests to the store</h2> ++
      region("Requests")(<table>
        <thead><tr><th scope="col">side</th><th scope="col">kind</th>
          <th scope="col" class="n">requests</th><th scope="col" class="n">repeated</th>
          <th scope="col" class="n">failed</th></tr></thead>
        <tbody>{
        for ((side, share) <- sides; (kind, count) <- share.requests.toSeq.sortBy(_._1))
          yield <tr><th scope="row">{side}</th><td>{kind}</td><td class="n">{count.requests}</td>
            <td class="n">{count.retries}</td><td class="n">{count.failures}</td></tr>
      }</tbody>
      </table>) ++
      <p>{
        sides
          .map { case (side, share) =>
            val (sent, waited) = (Figures.millis(share.sentMs), Figures.millis(share.waitedMs))
            s"The $side sent ${Figures.bytes(share.bytesSent)} in $sent of requests, and waited " +
              s"$waited for failed ones."
          }
          .mkString(" ")
      }</p>
  }

  override def renderJson(request: HttpServletRequest): JValue = {
    val epoch = parameter(request, "epoch").flatMap(_.toLongOption)
    store
      .epochs(parameter(request, "location").getOrElse(""))
      .find(entry => epoch.contains(entry.epoch))
      .flatMap(_.record.toOption)
      .fold[JValue](JNothing)(record => jackson.JsonMethods.parse(EpochRecordJson.write(record)))
  }
}

private object EpochPage {
  final private case class Measure(
      key: String,
      title: String,
      values: OperatorRecord => Seq[Long],
      format: Long => String
  )

  private val Measures = Seq(
    Measure("time", "time", _.ms, Figures.millis),
    Measure("bytes", "bytes written", _.bytes, Figures.bytes),
    Measure("rows", "rows read", _.rows, rows => s"${Figures.count(rows)} rows"),
    Measure("inFlight", "in-flight rows", _.rowsInFlight, rows => s"${Figures.count(rows)} rows")
  )
}
