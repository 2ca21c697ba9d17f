package io.cleancut.bench

import java.lang.management.ManagementFactory
import java.nio.file.Path

import scala.collection.mutable
import scala.jdk.CollectionConverters._

/**
 * Runs [[StoreBench]] for Cleancut and for Spark's own providers in turn, each in a JVM of its own,
 * and prints medians and ratios as Markdown. A ratio above 1 says that Cleancut is so many times
 * faster.
 *
 * Arguments, all optional: `keys=10000,1000000` (store sizes), `manager=FileSystemBased` or
 * `FileContextBased` (both if absent), `turns=1` (runs of each provider, in turn).
 */
object CompareStores {
  private val State = "org.apache.spark.sql.execution.streaming.state"
  private val RocksConf = "spark.sql.streaming.stateStore.rocksdb"

  final private case class Named(name: String, provider: String, confs: Seq[String])

  private val Cleancut = Named("Cleancut", "io.cleancut.CleancutStateStoreProvider", Nil)
  private val Hdfs = Named("HDFS-backed", s"$State.HDFSBackedStateStoreProvider", Nil)

  private val Rocks = for {
    (changelog, label) <- Seq(true -> "changelog", false -> "no changelog")
    (tracking, suffix) <- Seq(true -> "", false -> ", no row count")
  } yield Named(
    s"RocksDB, $label$suffix",
    s"$State.RocksDBStateStoreProvider",
    Seq(
      s"$RocksConf.changelogCheckpointing.enabled=$changelog",
      s"$RocksConf.trackTotalNumberOfRows=$tracking"
    )
  )

  private val Managers = Seq("FileContextBased", "FileSystemBased").map { name =>
    val manager = "org.apache.spark.sql.execution.streaming.checkpointing"
    name -> Seq(
      "hadoop:spark.sql.streaming.checkpointFileManagerClass=" +
        s"$manager.${name}CheckpointFileManager"
    )
  }

  def main(args: Array[String]): Unit = {
    val options = args.map(_.split("=", 2)).collect { case Array(key, value) => key -> value }.toMap
    val sizes = options.getOrElse("keys", "10000,100000,1000000").split(",").map(_.toInt)
    val managers = options.get("manager").fold(Managers)(name => Managers.filter(_._1 == name))
    val turns = options.getOrElse("turns", "2").toInt
    for ((manager, managerConfs) <- managers; keys <- sizes) {
      val figures = measure(keys, managerConfs, turns)
      println(s"\n### $keys keys, ${manager}CheckpointFileManager\n")
      println(table(figures))
    }
  }

  /** Medians in nanoseconds by subject and figure, over the rounds of interleaved runs. */
  private def measure(
      keys: Int,
      confs: Seq[String],
      turns: Int
  ): Map[String, mutable.LinkedHashMap[String, Long]] = {
    val subjects = Cleancut +: Hdfs +: Rocks
    val found = subjects.map(s => s.name -> mutable.LinkedHashMap.empty[String, Seq[Long]]).toMap
    for (_ <- 0 until turns; subject <- subjects)
      for ((figure, ns) <- run(subject, keys, confs))
        found(subject.name)(figure) = found(subject.name).getOrElse(figure, Nil) :+ ns
    found.map { case (name, figures) => name -> figures.map { case (f, all) => f -> median(all) } }
  }

  private def run(subject: Named, keys: Int, confs: Seq[String]): Seq[(String, Long)] = {
    val jvm = ManagementFactory.getRuntimeMXBean
    val java = Path.of(System.getProperty("java.home"), "bin", "java").toString
    val command = Seq(java) ++ jvm.getInputArguments.asScala ++
      Seq("-Xmx6g", "-cp", jvm.getClassPath, "io.cleancut.bench.StoreBench") ++
      Seq(subject.provider, keys.toString, "7") ++ confs ++ subject.confs
    val child =
      new ProcessBuilder(command.asJava).redirectError(ProcessBuilder.Redirect.DISCARD).start()
    val lines = new String(child.getInputStream.readAllBytes()).linesIterator.toSeq
    require(child.waitFor() == 0, s"${subject.name} failed on $keys keys")
    lines.map(_.split("\t")).collect { case Array(name, _, ns) => name -> ns.toLong }
  }

  private def table(found: Map[String, mutable.LinkedHashMap[String, Long]]): String = {
    val header =
      Seq("figure", "Cleancut", "HDFS-backed", "best RocksDB", "over HDFS", "over RocksDB")
    val rows = found(Cleancut.name).toSeq.map { case (figure, ours) =>
      val hdfs = found(Hdfs.name).get(figure)
      val rocks = Rocks.flatMap(r => found(r.name).get(figure)).minOption
      val isTime = !figure.startsWith("bytes")
      def show(n: Long) = if (isTime) time(n) else f"${n / 1000.0}%.2f"
      def ratio(other: Option[Long]) = other.fold("")(o => f"${o.toDouble / ours}%.1f")
      Seq(figure.stripSuffix(", 1/1000"), show(ours), hdfs.fold("")(show), rocks.fold("")(show)) ++
        Seq(ratio(hdfs), ratio(rocks))
    }
    val rule = header.map(_ => "---")
    (header +: rule +: rows).map(_.mkString("| ", " | ", " |")).mkString("\n")
  }

  private def time(ns: Long): String =
    if (ns < 10000) s"$ns ns"
    else if (ns < 1000000) f"${ns / 1e3}%.0f µs"
    else f"${ns / 1e6}%.1f ms"

  private def median(all: Seq[Long]): Long = all.sorted.apply(all.size / 2)
}
