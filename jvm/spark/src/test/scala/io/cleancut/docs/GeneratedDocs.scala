package io.cleancut.docs

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

import io.cleancut.error.ErrorCatalog
import io.cleancut.metrics.MetricCatalog

/**
 * The documents that are generated from code. `make docs` writes them, [[GeneratedDocsSuite]]
 * compares.
 */
object GeneratedDocs {

  /** Content by path from the root of the project. */
  def contents: Seq[(String, String)] = Seq(
    "conf/cleancut-defaults.conf" -> KeysDoc.defaultsConf,
    "docs/reference/configuration.md" -> KeysDoc.markdown,
    "docs/reference/errors.md" -> ErrorsDoc.markdown,
    // Python reads its own copy, because it maps errors without opening the jar.
    "python/cleancut/error-classes.json" -> ErrorCatalog.json,
    "docs/reference/metrics.md" -> MetricsDoc.markdown,
    "python/cleancut/metrics.json" -> MetricCatalog.json
  )

  def main(args: Array[String]): Unit =
    contents.foreach { case (name, content) =>
      val path = Path.of(name)
      Files.createDirectories(path.getParent)
      Files.writeString(path, content, UTF_8)
      println(s"wrote $path")
    }
}
