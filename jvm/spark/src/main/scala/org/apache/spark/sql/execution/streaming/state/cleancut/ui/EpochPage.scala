package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Node, NodeSeq}

import jakarta.servlet.http.HttpServletRequest
import org.json4s._

import io.cleancut.history.{EpochRecord, EpochRecordJson, OperatorRecord}

/** One epoch: its phases, its tasks, its slowest stores and its requests. */
final private[ui] class EpochPage(tab: CutsTab) extends CutsPage(tab, "epoch") {
  import EpochPage._

  override def render(request: HttpServletRequest): Seq[Node] = {
    val location = parameter(request, "location").getOrElse("")
    val epochs = store.epochs(location)
    val asked = parameter(request, "epoch").flatMap(_.toLongOption)
    val entry = asked.flatMap(of => epochs.find(_.epoch == of))
    entry.map(of => of -> of.record) match {
      case None =>
        val which = asked.fold("that has no number")(_.toString)
        nothing(request, s"No epoch $which of '$location' is known here; older ones are forgotten.")
      case Some((_, Left(why)))         => nothing(request, s"The epoch cannot be shown: $why.")
      case Some((entry, Right(record))) =>
        page(request, s"Epoch ${record.epoch}") {
          ways(request, location, "epoch") ++ beside(request, location, record, epochs) ++
            why(record) ++ facts(record) ++ phases(entry) ++
            tasks(request, location, record) ++ slowest(record) ++ requests(record)
        }
    }
  }

  private def beside(
      request: HttpServletRequest,
      location: String,
      record: EpochRecord,
      epochs: Seq[EpochEntry]
  ): NodeSeq = {
    def to(epoch: Option[EpochEntry], title: String) = epoch.fold(NodeSeq.Empty) { of =>
      <a href={linkToEpoch(request, location, of.epoch)}>{s"$title (${of.epoch})"}</a>
    }
    <nav class="ways" aria-label="Other epochs">{
      to(epochs.filter(_.epoch < record.epoch).lastOption, "epoch before")
    } {to(epochs.find(_.epoch > record.epoch), "epoch after")}</nav>
  }

  private def why(record: EpochRecord): NodeSeq = record.slow.fold(NodeSeq.Empty) { slow =>
    <p class="why"><strong>Slow: {slow.kind}.</strong> {
      s"It took ${Figures.millis(record.tookMs.getOrElse(-1L))}, where " +
        s"${Figures.millis(slow.typicalMs)} are usual: ${slow.detail}."
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
      Option.when(health.pauseMs > 0)("driver stood still" -> Figures.millis(health.pauseMs)),
      Option.when(health.repeatedTasks > 0)(
        "task attempts made again" -> health.repeatedTasks.toString
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
      <thead><tr><th scope="col">phase</th><th scope="col" class="n">took</th></tr></thead>
      <tbody>{
      Drawings.Phases.map { phase =>
        <tr><th scope="row"><span class="key" style={s"background:${phase.fill}"}></span>{
          phase.name
        }</th><td class="n">{Figures.millis(phase.of(entry))}</td></tr>
      }
    }</tbody>
    </table>)

  private def tasks(
      request: HttpServletRequest,
      location: String,
      record: EpochRecord
  ): NodeSeq = {
    val by =
      parameter(request, "by").flatMap(of => Measures.find(_.key == of)).getOrElse(Measures.head)
    val choices = Measures.map { of =>
      val href = linkToEpoch(request, location, record.epoch, "by" -> of.key)
      if (of == by) <a aria-current="true" href={href}>{of.title}</a>
      else <a href={href}>{of.title}</a>
    }
    <section><h2>Operators and partitions</h2>
      <nav class="ways" aria-label="What is shown of each partition">{choices}</nav>{
      record.operators.map(heat(_, by))
    }</section>
  }

  private def heat(operator: OperatorRecord, by: Measure): NodeSeq = {
    val values = by.of(operator)
    val most = by.shown(values.maxOption.getOrElse(0L))
    val title = s"Operator ${operator.operator}: ${operator.partitions} partitions, ${by.title} " +
      s"up to $most"
    <section><h3>{title}</h3>
      {
      region(title)(Drawings.heat(operator, values, by.shown))
    }</section>
  }

  private def slowest(record: EpochRecord): NodeSeq = record.costs.fold(NodeSeq.Empty) { costs =>
    <h2>Slowest stores</h2> ++
      region("Slowest stores")(<table>
        <thead><tr><th scope="col">store</th><th scope="col">executor</th>
          <th scope="col" class="n">took</th></tr></thead>
        <tbody>{
        costs.slowest.map { of =>
          <tr><th scope="row">{of.store.toString}</th><td>{s"${of.executor} ${of.host}".trim}</td>
            <td class="n">{Figures.millis(of.ms)}</td></tr>
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
        for ((side, share) <- sides; (kind, of) <- share.requests.toSeq.sortBy(_._1))
          yield <tr><th scope="row">{side}</th><td>{kind}</td><td class="n">{of.requests}</td>
            <td class="n">{of.retries}</td><td class="n">{of.failures}</td></tr>
      }</tbody>
      </table>) ++
      <p>{
        sides
          .map { case (side, share) =>
            val (sent, waited) = (Figures.millis(share.sentMs), Figures.millis(share.waitedMs))
            s"The $side sent ${Figures.bytes(share.bytesSent)} in $sent of requests, and waited " +
              s"$waited for such as failed."
          }
          .mkString(" ")
      }</p>
  }

  override def renderJson(request: HttpServletRequest): JValue = {
    val epoch = parameter(request, "epoch").flatMap(_.toLongOption)
    store
      .epochs(parameter(request, "location").getOrElse(""))
      .find(of => epoch.contains(of.epoch))
      .flatMap(_.record.toOption)
      .fold[JValue](JNothing)(of => jackson.JsonMethods.parse(EpochRecordJson.write(of)))
  }
}

private object EpochPage {
  final private case class Measure(
      key: String,
      title: String,
      of: OperatorRecord => Seq[Long],
      shown: Long => String
  )

  private val Measures = Seq(
    Measure("time", "time", _.ms, Figures.millis),
    Measure("bytes", "bytes written", _.bytes, Figures.bytes),
    Measure("rows", "rows read", _.rows, of => s"${Figures.count(of)} rows"),
    Measure("inFlight", "rows in flight", _.rowsInFlight, of => s"${Figures.count(of)} rows")
  )
}
