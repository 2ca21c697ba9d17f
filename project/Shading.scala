import com.eed3si9n.jarjarabrams.ShadeRule
import sbtassembly.MergeStrategy

/**
 * Libraries in the jar have shaded names, so that no copy of a cluster conflicts with them.
 */
object Shading {
  private val Packages =
    Seq("software.amazon", "org.apache.hc", "org.reactivestreams", "org.publicsuffix")

  /** Also renames the files of ServiceLoader, and their content. */
  val rules: Seq[ShadeRule] =
    Packages.map(name => ShadeRule.rename(s"$name.**" -> "io.cleancut.shaded.@0").inAll)

  val merge: String => MergeStrategy = {
    case name if name.startsWith("META-INF/services/") => MergeStrategy.filterDistinctLines
    // One file per jar, under the name of the jar; those of the SDK are equal.
    case "META-INF/LICENSE" | "META-INF/NOTICE"            => MergeStrategy.rename
    case "META-INF/MANIFEST.MF" | "META-INF/DEPENDENCIES"  => MergeStrategy.discard
    case name if name.startsWith("META-INF/maven/")        => MergeStrategy.discard
    case name if name.startsWith("META-INF/native-image/") => MergeStrategy.discard
    case name if name.endsWith("module-info.class")        => MergeStrategy.discard
    // For tools that generate clients from service descriptions.
    case name if name.startsWith("codegen-resources/") => MergeStrategy.discard
    case "VersionInfo.java"                            => MergeStrategy.discard
    case _                                             => MergeStrategy.deduplicate
  }
}
