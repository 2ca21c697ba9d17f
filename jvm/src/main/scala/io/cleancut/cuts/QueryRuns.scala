package io.cleancut.cuts

import org.slf4j.LoggerFactory

import io.cleancut.Clock
import io.cleancut.error.Errors
import io.cleancut.format._

/**
 * The runs of one query, of which the latest that is known here is believed. A run begins with its
 * first report or commit, and takes the ownership then. Guards all that its coordinator knows.
 */
abstract class QueryRuns private[cuts] (
    private[cuts] val archive: CutArchive,
    private[cuts] val logs: SparkLogs,
    host: String,
    private[cuts] val runtime: CutsRuntime
) {
  import QueryRuns.logger

  private[cuts] var current = Option.empty[QueryRun]
  private[cuts] val book = new UsageBook
  private var past = Set.empty[String]

  private[cuts] def clock: Clock = runtime.clock

  final private[cuts] def within[A](runId: String)(act: QueryRun => A): Either[String, A] =
    runOf(runId).map(run => synchronized(act(run)))

  final private[cuts] def usage(): UsageBook.Shares = synchronized {
    book.now(Usage(archive.store.counts, runtime.packer.written))
  }

  final private[cuts] def believed(runId: String, epoch: Long): QueryRun =
    runOf(runId).fold(why => throw Errors.fenced(archive.location, epoch, why), identity)

  /** The run, which begins here if nothing of it has been seen; or why it is not believed. */
  final private[cuts] def runOf(runId: String): Either[String, QueryRun] = synchronized {
    current match {
      case Some(run) if run.id.runId == runId => Right(run)
      case _ if past(runId)                   =>
        Left(s"run $runId has been followed by run ${current.fold("")(_.id.runId)}")
      case _ =>
        val begun = begin(runId)
        past ++= current.map(_.id.runId)
        current = Some(begun)
        Right(begun)
    }
  }

  private def begin(runId: String): QueryRun = {
    val begun = usage()
    val queryId = logs.queryId()
    val generation = archive.own(queryId, runId, host)
    // Looked up before the cuts: an entry that is written behind its cut is never ahead then.
    val plain = logs.lastPlainCommit()
    val listed = archive.listed()
    val cut = listed.epochs.lastOption.flatMap(archive.read)
    if (cut.isEmpty) archive.mark(queryId)
    for (last <- plain; done <- cut if last > done.epoch && done.stores.nonEmpty)
      throw Errors.cutsOvertaken(archive.location, last, done.epoch)
    val committed = (cut.map(_.epoch) ++ plain).maxOption.getOrElse(-1L)
    logger.info(
      s"Run $runId owns ${archive.location} as generation $generation, behind epoch $committed"
    )
    val seal = listed.seals.find(_ == committed + 1).flatMap(archive.readSeal)
    seal.foreach(s => logger.info(s"Epoch ${s.epoch} was sealed by run ${s.run.runId}"))
    new QueryRun(
      RunId(queryId, runId, generation),
      new QueryLedger(committed, cut, runtime.baseMargin, seal),
      new EpochMeter(begun),
      seal
    )
  }
}

private object QueryRuns {
  private val logger = LoggerFactory.getLogger(classOf[QueryCuts])
}
