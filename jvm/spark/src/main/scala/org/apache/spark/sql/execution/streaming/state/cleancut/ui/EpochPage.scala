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
            slowReason(record) ++ facts(record) ++ phases(entry) ++
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
    }</p>
  }

  private def facts(record: EpochRecord): NodeSeq = {
    val health = record.health
    val shown = Seq(
      Some("committed" -> Figures.moment(record.writtenMs)),
      Some("run" -> s"${record.run.runId}, generation ${record.run.generation}"),
      Some("state stores" -> Figures.count(record.stores)),
      Some("rows read" -> Figures.count(record.rows)),
      Some(
        "in flight" -> (s"${Figures.count(record.rowsInFlight)} rows, " +
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

  private def phases(entry: EpochEntry): NodeSeq =
    <h2>Phases</h2> ++ region("Phases")(<table>
      <thead><tr><th scope="col">phase</th><th scope="col" class="n">duration</th></tr></thead>
      <tbody>{
      Drawings.Phases.map { phase =>
        <tr><th scope="row"><span class="key" style={s"background:${phase.fill}"}></span>{
          phase.name
        }</th><td class="n">{Figures.millis(phase.durationMs(entry))}</td></tr>
      }
    }</tbody>
    </table>)

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
      record.operators.map(heat(_, by))
    }</section>
  }

  private def heat(operator: OperatorRecord, by: Measure): NodeSeq = {
    val values = by.values(operator)
    val maximum = by.format(values.maxOption.getOrElse(0L))
    val title = s"Operator ${operator.operator}: ${operator.partitions} partitions, ${by.title} " +
      s"up to $maximum"
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
