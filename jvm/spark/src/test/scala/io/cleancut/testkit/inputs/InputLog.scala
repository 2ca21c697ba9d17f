package io.cleancut.testkit.inputs

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, StandardOpenOption}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

/**
 * The inputs of randomized runs, as lines of JSON that `python -m tests.input_coverage` reads. The
 * lines of a space precede those of its runs.
 *
 * @param directory
 *   a directory with a file for each process; None to write nothing
 */
final class InputLog(directory: Option[Path]) {
  private val json = new ObjectMapper
  private var written = Set.empty[String]

  /**
   * Writes the inputs of a run.
   *
   * @param inputs
   *   names of values by dimension
   */
  def add(space: InputSpace, seed: Long, inputs: Map[String, Set[String]]): Unit =
    write(space, seed, inputs)

  /**
   * Writes the inputs of a part of a run.
   *
   * @param part
   *   a name that no other part of a run of the generator has
   */
  def addPart(space: InputSpace, part: String, inputs: Map[String, Set[String]]): Unit =
    write(space, part, inputs)

  private def write(space: InputSpace, seed: Any, inputs: Map[String, Set[String]]): Unit =
    directory.foreach { home =>
      val line = Map[String, Any](
        "generator" -> space.generator,
        "seed" -> seed,
        "inputs" -> inputs.map { case (name, values) => name -> values.toSeq.sorted.asJava }.asJava
      )
      synchronized {
        if (!written(space.generator)) append(home, InputLog.described(space))
        written += space.generator
        append(home, line.asJava)
      }
    }

  private def append(home: Path, line: java.util.Map[String, Any]): Unit = {
    Files.createDirectories(home)
    val file = home.resolve(s"jvm-${ProcessHandle.current.pid}.jsonl")
    Files.write(
      file,
      (json.writeValueAsString(line) + "\n").getBytes(UTF_8),
      StandardOpenOption.CREATE,
      StandardOpenOption.APPEND
    )
    ()
  }
}

object InputLog {

  /** The log in the directory of the environment variable `CLEANCUT_INPUTS`, if it is set. */
  val default: InputLog = new InputLog(sys.env.get("CLEANCUT_INPUTS").map(Path.of(_)))

  private def described(space: InputSpace): java.util.Map[String, Any] = Map[String, Any](
    "generator" -> space.generator,
    "dimensions" -> space.dimensions
      .map(one => Map[String, Any]("name" -> one.name, "values" -> one.names.asJava).asJava)
      .asJava,
    "impossible" -> space.impossible.map { rule =>
      Map[String, Any](
        "pairs" -> Seq(rule.first, rule.second)
          .map(one =>
            Map[String, Any]("name" -> one.dimension, "values" -> one.values.asJava).asJava
          )
          .asJava,
        "reason" -> rule.reason
      ).asJava
    }.asJava
  ).asJava
}
