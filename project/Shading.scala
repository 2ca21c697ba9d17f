import com.eed3si9n.jarjarabrams.ShadeRule
import sbtassembly.MergeStrategy

/**
 * What the jar carries of others lies under names of its own, so that no cluster's copy clashes.
 */
object Shading {
  private val Packages =
    Seq("software.amazon", "org.apache.hc", "org.reactivestreams", "org.publicsuffix")

  /** Also the names of ServiceLoader's files, and what is in them. */
  val rules: Seq[ShadeRule] =
    Packages.map(name => ShadeRule.rename(s"$name.**" -> "io.cleancut.shaded.@0").inAll)

  val merge: String => MergeStrategy = {
    case name if name.startsWith("META-INF/services/") => MergeStrategy.filterDistinctLines
    // Each beside the others, under the name of its jar; those of the SDK are all alike.
    case "META-INF/LICENSE" | "META-INF/NOTICE"            => MergeStrategy.rename
    case "META-INF/MANIFEST.MF" | "META-INF/DEPENDENCIES"  => MergeStrategy.discard
    case name if name.startsWith("META-INF/maven/")        => MergeStrategy.discard
    case name if name.startsWith("META-INF/native-image/") => MergeStrategy.discard
    case name if name.endsWith("module-info.class")        => MergeStrategy.discard
    // For tools that make clients from service descriptions.
    case name if name.startsWith("codegen-resources/") => MergeStrategy.discard
    case "VersionInfo.java"                            => MergeStrategy.discard
    case _                                             => MergeStrategy.deduplicate
  }
}
