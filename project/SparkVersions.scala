import sbt._

/**
 * The Spark versions, and the folders of shims that each is compiled with: `spark-4.2` is only for
 * that version, `spark-4.0-4.2` for all from the first to the second.
 */
object SparkVersions {
  val All: Seq[String] = Seq("4.0", "4.1", "4.2", "4.3")

  private val Folder = """spark-(\d+\.\d+)(?:-(\d+\.\d+))?""".r

  def isBefore(version: String, other: String): Boolean = All.indexOf(version) < All.indexOf(other)

  /** The folders of shims below a source root. */
  def shims(root: File, version: String): Seq[File] =
    (root / "scala-shims" * "spark-*").get.filter(folder => isFor(folder.getName, version))

  private def isFor(folder: String, version: String): Boolean = folder match {
    case Folder(first, null) => first == version
    case Folder(first, last) => !isBefore(version, first) && !isBefore(last, version)
    case _                   => sys.error(s"$folder is no range of Spark versions")
  }

  /** The shims that no later version is compiled with. */
  def shimSources(root: File, version: String): Seq[File] = {
    val later = All.filter(isBefore(version, _)).flatMap(shims(root, _)).toSet
    shims(root, version).filterNot(later).flatMap(folder => (folder ** "*.scala").get)
  }
}
