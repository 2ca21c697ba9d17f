import sbt._

/**
 * Which folders of sources a line of Spark is compiled with, beside those that all lines share:
 * `scala-4.2` is for this line alone, `scala-4.2+` for it and later ones, `scala-4.2-` for it and
 * earlier ones.
 */
object SparkLines {
  private val Folder = """scala-(\d+)\.(\d+)([+-]?)""".r

  private val order = Ordering[(Int, Int)]

  private def numbers(line: String): (Int, Int) = {
    val Array(major, minor) = line.split('.').map(_.toInt)
    (major, minor)
  }

  def isBefore(line: String, other: String): Boolean = order.lt(numbers(line), numbers(other))

  def folders(root: File, line: String): Seq[File] = {
    val at = numbers(line)
    (root * "scala-*").get.filter { folder =>
      folder.getName match {
        case Folder(a, b, range) =>
          val bound = (a.toInt, b.toInt)
          range match {
            case "+" => order.gteq(at, bound)
            case "-" => order.lteq(at, bound)
            case _   => at == bound
          }
        case _ => false
      }
    }
  }

  /** What is in the folders that are named after a line. */
  def ownSources(root: File, line: String): Seq[File] =
    Seq("", "+", "-").flatMap(range => (root / s"scala-$line$range" ** "*.scala").get)
}
