package io.cleancut.coordinator.sim

import org.apache.hadoop.fs.Path

import io.cleancut.protocol.OffsetEntry

/** The locations of the simulated query in the bucket. */
object Names {
  val Checkpoint = "q/"
  val Root = s"${Checkpoint}cleancut/"

  def log(name: String): Path = new Path(s"s3://bucket/$Checkpoint$name")

  /** Spark's entry of the offset log. */
  def offsets(end: Int): String = s"v1\n{}\n$end"

  /**
   * The offset log entry of an operation.
   *
   * @param source
   *   epoch of which the operation makes its epoch
   * @param last
   *   last epoch before the operation, if it is not the source
   */
  def offsetsOfOperation(end: Int, unused: Long, source: Long, last: Option[Long]): String = {
    val numbers = Seq(OffsetEntry.UnusedBeforeAct -> unused, OffsetEntry.SourceOfAct -> source) ++
      last.map(OffsetEntry.LastBeforeAct -> _)
    val marks = (OffsetEntry.Act -> "act") +: numbers.map { case (name, number) =>
      name -> s"$number"
    }
    val conf = marks.map { case (name, value) => s"\"$name\":\"$value\"" }.mkString(",")
    s"""v1\n{"conf":{$conf}}\n$end"""
  }
  def entry(log: String, epoch: Long): Path = new Path(Names.log(log), epoch.toString)
}

/** Spark's entry of the commit log. */
object CommitIds {
  private val Id = "[0-9a-f]{32}".r

  def entry(ids: Iterable[String]): String =
    if (ids.isEmpty) "v1\n{\"nextBatchWatermarkMs\":0}"
    else {
      val quoted = ids.map(id => "[\"" + id + "\"]").mkString(",")
      s"""v2
         |{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[$quoted]}}""".stripMargin
    }

  def in(entry: String): Set[String] = Id.findAllIn(entry).toSet
}
