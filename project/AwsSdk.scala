import sbt._

/** The S3 client that the jar contains under shaded names. */
object AwsSdk {

  /** sts exchanges the identity of a pod or a role; the SDK finds it by reflection. */
  val modules: Seq[ModuleID] = Seq("s3", "sts", "apache5-client").map(module)

  private def module(name: String): ModuleID =
    ("software.amazon.awssdk" % name % Versions.AwsSdk)
      .excludeAll(
        // Only the asynchronous client needs these.
        ExclusionRule("software.amazon.awssdk", "netty-nio-client"),
        ExclusionRule("software.amazon.awssdk", "eventstream"),
        // The former synchronous client, which the SDK has deprecated.
        ExclusionRule("software.amazon.awssdk", "apache-client"),
        // Spark has it, with its own back end.
        ExclusionRule("org.slf4j", "slf4j-api")
      )
}
