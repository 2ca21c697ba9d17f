package org.apache.spark.sql.execution.streaming.state.cleancut.ui

import scala.xml.{Elem, NodeSeq, Text}

import io.cleancut.history.{EpochPhase, SlowEpochs}

/** Explanations of the terms on the pages, as tooltips; the documentation has the same terms. */
private[ui] object Terms {

  /** The page of the documentation that explains the tab. */
  val DocsUrl = "https://cleancut.io/operate/watching.html"

  private val explained: Map[String, String] = Map(
    "epoch" -> "A micro-batch; the number is Spark's batch ID.",
    "query" -> "Name of the streaming query, or its ID.",
    "mode" -> "Whether stragglers stop early (unaligned, auto) or each epoch waits for all rows.",
    "committed" -> "Time at which the cut of the epoch was assembled.",
    "cut lag" ->
      "Time from the end of the sink until the cut existed; a restart before it repeats the epoch.",
    "duration" ->
      "Time from the start of the trigger until the epoch was committed, in milliseconds.",
    "median" -> "Median duration of the epochs that are shown.",
    "slow" -> "Epochs that took more than twice the median of the 50 before, and 200 ms more.",
    "reason if slow" -> "The first cause that explains half of the time over the median.",
    "longest phase" -> "The phase that took most of the epoch, with its share.",
    "last epoch" -> "The last committed epoch.",
    "alignment" ->
      "Longest time between the first and the last shuffle input of an operator to arrive.",
    "rows read" -> "Rows that the tasks of the state operators have read.",
    "in-flight rows" -> "Rows of a shuffle input that are in no store yet. The cut stores them.",
    "bytes of in-flight rows" -> "Size of the in-flight rows in the cut.",
    "requests" -> "Requests to the object store or file system, including repeated ones.",
    "cost of requests" -> "Cost of the requests in US dollars, at the prices of S3 Standard.",
    "bytes sent" -> "Bytes in the bodies of requests to the object store or file system.",
    "run" -> "Generation: each start of the query takes the next number.",
    "requests per day" -> "Requests per day at the pace of the last epochs.",
    "S3 cost per day" -> "US dollars per day for requests and storage, at S3 Standard prices.",
    "costs" -> "Requests and US dollars per day at the pace of the last epochs.",
    "last restore test" -> "The last cut whose objects were all read and decoded.",
    "checkpoint" -> "Checkpoint location of the query.",
    "state stores" -> "Number of state stores: one for each operator, partition and name.",
    "barrier to capture" ->
      "Longest time from the request to stop a straggler until its rows were stored.",
    "driver pauses" -> "Garbage collection pauses of the driver during the epoch.",
    "repeated task attempts" -> "Attempts beyond one for each task of the state operators.",
    "executors lost" -> "Executors that were removed during the epoch.",
    "phase" -> "A part of the epoch. The phases follow each other.",
    "usual" -> "Median of the other epochs of this run that are shown.",
    "share" -> "Percent of the duration of the epoch.",
    "stage" -> "Spark's stage ID; the tab Stages has its tasks.",
    "operators" -> "Names in Spark's plan, from the source to the sink.",
    "store" -> "Operator, partition and name of a state store.",
    "tasks" -> "Number of tasks of the stage."
  ) ++ EpochPhase.All.map(phase => phase.name -> phase.doc)

  /** A term with its explanation as a tooltip; plain text if there is none. */
  def apply(term: String): NodeSeq =
    explained.get(term).fold[NodeSeq](Text(term))(doc => <abbr title={doc}>{term}</abbr>)

  def docOf(term: String): Option[String] = explained.get(term)

  /** A link to the documentation. */
  def docsLink: Elem = <a href={DocsUrl}>Documentation</a>

  /** A link to the explanation of slow epochs. */
  def reasonsLink: Elem = <a href={s"$DocsUrl#why-an-epoch-was-slow"}>What the reasons mean</a>

  /** What to do next for a kind of slow epoch. */
  def advice(kind: String): Option[String] = Option(kind).collect {
    case SlowEpochs.MapSide =>
      "Open the stage in the tab Stages: its tasks read rows or run a function before the state " +
        "operators."
    case SlowEpochs.Source =>
      "Check the source: the driver waited for its list of new rows, before any task ran."
    case SlowEpochs.StateOperators =>
      "Open the stage in the tab Stages, and compare the partitions below."
    case SlowEpochs.Sink =>
      "Check the sink: it worked outside of the tasks of the state operators."
    case SlowEpochs.Commit | SlowEpochs.Retries | SlowEpochs.Upload =>
      "Check the object store: its latency, its limits and the requests below."
  }
}
