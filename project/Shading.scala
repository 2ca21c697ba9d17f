import java.io.{ByteArrayInputStream, InputStream}
import java.nio.charset.StandardCharsets.UTF_8

import sbtassembly.Assembly.Dependency
import com.eed3si9n.jarjarabrams.ShadeRule
import sbtassembly.AssemblyPlugin.autoImport.CustomMergeStrategy
import sbtassembly.Assembly.JarEntry
import sbtassembly.MergeStrategy

/**
 * What the jar carries of others lies under names of its own, so that no cluster's copy clashes.
 */
object Shading {
  private val Prefix = "io.cleancut.shaded."

  /** Packages by their beginnings, as they stand in front of a class name. */
  private val Packages =
    Seq("software.amazon", "org.apache.hc", "org.apache.commons.codec", "org.reactivestreams")

  val rules: Seq[ShadeRule] =
    Packages.map(name => ShadeRule.rename(s"$name.**" -> s"$Prefix@0").inAll)

  /** Names in text files are not seen by the rules above. */
  private val renamed: MergeStrategy =
    CustomMergeStrategy("renamed lines") { dependencies =>
      val lines = dependencies.flatMap(linesOf).map(rename).distinct
      val bytes = lines.mkString("", "\n", "\n").getBytes(UTF_8)
      val name = rename(dependencies.head.target)
      Right(Vector(JarEntry(name, () => new ByteArrayInputStream(bytes): InputStream)))
    }

  /** The licences of all that is inside, one behind the other. */
  private val joined: MergeStrategy =
    CustomMergeStrategy("joined notices") { dependencies =>
      val texts = dependencies.map(d => linesOf(d).mkString("\n").trim).distinct
      val bytes = texts.mkString("", s"\n\n${"-" * 72}\n\n", "\n").getBytes(UTF_8)
      Right(
        Vector(
          JarEntry(dependencies.head.target, () => new ByteArrayInputStream(bytes): InputStream)
        )
      )
    }

  val merge: String => MergeStrategy = {
    case name if name.startsWith("META-INF/services/")     => renamed
    case name if name.endsWith("execution.interceptors")   => renamed
    case "META-INF/LICENSE" | "META-INF/LICENSE.txt"       => joined
    case "META-INF/NOTICE" | "META-INF/NOTICE.txt"         => joined
    case name if name.startsWith("META-INF/maven/")        => MergeStrategy.discard
    case name if name.startsWith("META-INF/native-image/") => MergeStrategy.discard
    case name if name.endsWith("module-info.class")        => MergeStrategy.discard
    case "META-INF/MANIFEST.MF" | "META-INF/DEPENDENCIES"  => MergeStrategy.discard
    // Tools that make clients from service descriptions want these.
    case name if name.startsWith("codegen-resources/") => MergeStrategy.discard
    case name if name.startsWith("META-INF/") && name.endsWith(".kotlin_module") =>
      MergeStrategy.discard
    case _ => MergeStrategy.deduplicate
  }

  private def rename(text: String): String =
    Packages.foldLeft(text)((result, name) => result.replace(s"$name.", s"$Prefix$name."))

  private def linesOf(dependency: Dependency): Seq[String] = {
    val in = dependency.stream()
    try new String(in.readAllBytes(), UTF_8).split("\r?\n").toSeq
    finally in.close()
  }
}
