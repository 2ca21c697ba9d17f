import sbt._

/** The S3 client that the jar carries under names of its own. */
object AwsSdk {

  /** sts is what a pod's or a role's identity is exchanged at; the SDK finds it by reflection. */
  val modules: Seq[ModuleID] = Seq("s3", "sts", "apache5-client").map(module)

  private def module(name: String): ModuleID =
    ("software.amazon.awssdk" % name % Versions.AwsSdk)
      .excludeAll(
        // Only the asynchronous client needs these.
        ExclusionRule("software.amazon.awssdk", "netty-nio-client"),
        ExclusionRule("software.amazon.awssdk", "eventstream"),
        // The synchronous client of before, which it calls deprecated itself.
        ExclusionRule("software.amazon.awssdk", "apache-client"),
        // Spark has it, with its own back end behind it.
        ExclusionRule("org.slf4j", "slf4j-api")
      )
}
