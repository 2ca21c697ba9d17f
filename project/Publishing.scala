import java.security.MessageDigest

import scala.xml.{Comment, Elem, Node, NodeSeq}
import scala.xml.transform.{RewriteRule, RuleTransformer}

import sbt._
import sbt.Keys._
import sbtassembly.AssemblyKeys.assembly

/** The directory of a release that Maven, Ivy and Spark's `--packages` can read. */
object Publishing {

  /** The URL of the code; without one the descriptions of a release have none. */
  private val place = sys.env.get("CLEANCUT_URL").filter(_.nonEmpty)

  val shadedModules: TaskKey[File] = taskKey("a table of the modules inside of the shared jar")

  val settings: Seq[Setting[_]] = Seq(
    publish / skip := false,
    publishMavenStyle := true,
    publishTo := Some(
      MavenCache("release", (LocalRootProject / baseDirectory).value / "dist" / "maven")
    ),
    organizationName := "Cleancut",
    organizationHomepage := None,
    description := s"Consistent cuts for Spark Structured Streaming: ${moduleName.value}",
    licenses := Seq("Apache-2.0" -> url("https://www.apache.org/licenses/LICENSE-2.0.txt")),
    pomExtra :=
      <developers>
        <developer><id>cleancut</id><name>The developers of Cleancut</name></developer>
      </developers>,
    homepage := place.map(url(_)),
    scmInfo := place.map(at => ScmInfo(url(at), s"scm:git:$at")),
    // The jars in the wheel.
    Compile / packageBin := assembly.value,
    // Its warnings concern comments for readers of the code.
    Compile / doc / scalacOptions := Seq("-encoding", "utf-8", "-no-link-warnings"),
    pomPostProcess := (asPublished(_))
  )

  private val Kept = "io.cleancut"

  /** Excludes dependencies that the jar contains, that Spark provides, or that only tests need. */
  private def asPublished(pom: Node): Node = {
    val rule = new RewriteRule {
      override def transform(node: Node): NodeSeq = node match {
        case e: Elem if e.label == "dependency" && (e \ "groupId").text != Kept => NodeSeq.Empty
        case _: Comment                                                         => NodeSeq.Empty
        case other                                                              => other
      }
    }
    new RuleTransformer(rule).transform(pom).head
  }

  /** A line for each module in the shared jar: its coordinates, licences and SHA-256. */
  def table(report: UpdateReport): String = {
    val modules = for {
      configuration <- report.configurations if configuration.configuration.name == "runtime"
      module <- configuration.modules if !module.evicted
      (_, jar) <- module.artifacts if module.module.organization != "org.scala-lang"
    } yield {
      val id = module.module
      val licences = module.licenses.map { case (name, at) => s"$name <${at.getOrElse("")}>" }
      val digest = MessageDigest.getInstance("SHA-256").digest(IO.readBytes(jar))
      val hex = digest.map(byte => f"$byte%02x").mkString
      Seq(id.organization, id.name, id.revision, hex, licences.mkString("; ")).mkString("\t")
    }
    modules.distinct.sorted.mkString("", "\n", "\n")
  }
}
