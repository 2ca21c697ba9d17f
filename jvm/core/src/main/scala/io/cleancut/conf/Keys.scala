package io.cleancut.conf

/**
 * All configuration keys of Cleancut. Settings for which Spark has a key (versions to keep, deltas
 * before a snapshot, maintenance interval) are read from Spark's key.
 */
object Keys {

  /** Spark passes only keys with the prefix `spark.sql.streaming.stateStore.` to executors. */
  val Prefix = "spark.sql.streaming.stateStore.cleancut."

  private val MaxRetentionMs = 366L * 24 * 3600 * 1000
  private val MaxPartitions = 1000000

  val S3AccessPoint: Key[Option[String]] = Key(
    "s3.accessPoint",
    doc = "The ARN of the access point that receives the requests to an s3:// location, " +
      "instead of the bucket in its URL. The bucket name then appears only in messages. " +
      "An alias of an access point needs no key: use it as the bucket in the URL. auto is " +
      "the bucket.",
    default = None,
    KeyType.textOrAuto("name", "or the ARN of an access point", isAccessPoint),
    since = "0.1.0"
  )

  val S3MaxConnections: Key[Int] = Key(
    "s3.maxConnections",
    doc = "The most connections that one process opens to the object store of an s3:// " +
      "location. With fewer than its tasks and uploads use at the same time, requests " +
      "wait. More have no effect.",
    default = 64,
    KeyType.int("connections", min = 1, max = 10000),
    since = "0.1.0"
  )

  val S3Encryption: Key[Option[String]] = Key(
    "s3.encryption",
    doc = "How the object store of an s3:// location encrypts new objects. auto is the " +
      "default of the bucket. s3 uses keys of the object store (SSE-S3). kms uses the " +
      "account's key of the key management service, kms:<id or ARN> another key. " +
      "kms-bucket-key and kms-bucket-key:<id or ARN> share one data key between many " +
      "objects, which costs less. customer:<file> is your own key (SSE-C): the file " +
      "contains its 32 bytes in base64 and must exist on the driver and each executor. " +
      "Without that key the objects cannot be read.",
    default = None,
    KeyType.textOrAuto(
      "name",
      "s3, kms, kms:<key>, kms-bucket-key, kms-bucket-key:<key> or customer:<file>",
      isEncryption
    ),
    since = "0.1.0"
  )

  val S3RequesterPays: Key[Boolean] = Key(
    "s3.requesterPays",
    doc = "Whether requests to an s3:// location state that the requester pays for them. A " +
      "bucket with this setting refuses other requests of accounts that do not own it.",
    default = false,
    KeyType.boolean,
    since = "0.1.0"
  )

  val CompressionLevel: Key[Int] = Key(
    "compressionLevel",
    doc = "zstd compression level of the files that a commit writes. A higher level makes " +
      "smaller files and costs CPU time within the task at every commit. A negative level is " +
      "faster than 1 and compresses less. Files of all levels can be read with any setting.",
    default = -2,
    KeyType.int("zstd level", min = -7, max = 19),
    since = "0.1.0"
  )

  val LazyRestore: Key[Boolean] = Key(
    "lazyRestore",
    doc = "Whether a store opens before its snapshot is read. Rows are then read in blocks of " +
      "some thousand when they are needed, and the rest while no task uses the store, if " +
      "maxOffHeapMemory has room. Column families that are scanned in key order, and " +
      "snapshots below 1 MiB, are always read at once. false reads the complete snapshot " +
      "before the first row, and so detects corruption earlier.",
    default = true,
    KeyType.boolean,
    since = "0.1.0"
  )

  val MergedAggregation: Key[Boolean] = Key(
    "mergedAggregation",
    doc =
      "Whether the state of a group is merged with the rows of an epoch where it is read, and " +
        "results are computed where it is saved. Spark builds a hash map for each instead. It " +
        "applies to groupBy with functions of fixed size, such as those of numbers. Rows and " +
        "state are the same. false keeps Spark's plan. You can change it at each start.",
    default = true,
    KeyType.boolean,
    since = "0.1.0"
  )

  val AcceleratePython: Key[Boolean] = Key(
    "acceleratePython",
    doc = "Whether Python functions of transformWithState, transformWithStateInPandas and " +
      "applyInPandasWithState run in Cleancut's loop over groups, which sends requests for state " +
      "together and converts many groups at once. Arguments, results and state are the same; " +
      "results reach the next operator in fewer and larger Arrow batches. It applies where the " +
      "loop of PySpark is a known one, which is that of each release up to 4.3.0. false keeps " +
      "PySpark's loop. You can change it at each start.",
    default = true,
    KeyType.boolean,
    since = "0.1.0"
  )

  val PipelinedCuts: Key[Option[String]] = Key(
    "pipelinedCuts",
    doc = "Whether an epoch of a query with a sink that seals begins while the cut of the epoch " +
      "before is being written, so that the query does not wait for the object store between " +
      "epochs. auto is true for a location on s3://, where requests take longer than on a file " +
      "system. A driver that is killed repeats up to two epochs instead of one; rows are " +
      "neither lost nor duplicated. It applies to Kafka, rate and file sources, " +
      "if spark.sql.streaming.noDataMicroBatches.enabled is true. The status names the reason " +
      "where it does not apply. You can change it at each start.",
    default = None,
    KeyType.wordOrAuto("switch", Seq("true", "false")),
    since = "0.1.0"
  )

  val HandoverTimeout: Key[Long] = Key(
    "handoverTimeout",
    doc = "How long a start waits for a run of the same query that is still active: that run " +
      "completes its epoch and ends without an error, and the new run continues after it. When " +
      "the time is over, the new run takes the query, and the other one ends with " +
      "CLEANCUT_FENCED. 0ms takes it at once. A start after a driver that was killed waits for " +
      "the whole time. It applies to checkpoints with cuts. You can change it at each start.",
    default = 0L,
    KeyType.durationMs(maxMs = 3600000L),
    since = "0.1.0"
  )

  val LocalCacheSize: Key[Long] = Key(
    "localCacheSize",
    doc = "How much of Spark's local directories one executor uses to cache snapshots that it " +
      "has fetched or written, for all its stores together. A store that returns to the " +
      "executor fetches only newer changelogs. 0k disables the cache. It has no effect " +
      "for locations on a local disk.",
    default = 10L << 30,
    KeyType.bytes(min = 0L),
    since = "0.1.0"
  )

  val StandbyReplicas: Key[Int] = Key(
    "standbyReplicas",
    doc = "How many executors, in addition to the one that runs a store, keep a copy of its " +
      "snapshot on their local disks. A task that fails over to one of them fetches only " +
      "newer changelogs. Copies are on other hosts if possible, are fetched a second " +
      "after the snapshot, and count in localCacheSize. It has an effect for checkpoints " +
      "with cuts that are not on a local disk.",
    default = 0,
    KeyType.int("replicas", min = 0, max = 16),
    since = "0.1.0"
  )

  val StatePartitions: Key[Option[String]] = Key(
    "statePartitions",
    doc = "The number of state partitions. auto keeps the number in the checkpoint; a new query " +
      "uses spark.sql.shuffle.partitions. If the checkpoint has another number, the query is " +
      "rescaled at its start by a separate epoch. It takes as long as reading and writing the " +
      "state, or about a second with cuts and most ratios to the current number. The provider of " +
      "the state does not matter. If a rescale is not possible yet, because an uncommitted epoch " +
      "exists, a warning is logged and the next start rescales. It is not supported for queries " +
      "that write to Spark's file sink: use cleancut.rescale with file_sink.",
    default = None,
    KeyType.textOrAuto(
      "partitions",
      s"or a whole number from 1 to $MaxPartitions",
      text => text.toIntOption.exists(n => n >= 1 && n <= MaxPartitions)
    ),
    since = "0.1.0"
  )

  val ChangeFeed: Key[String] = Key(
    "changeFeed",
    doc = "The changes that a commit stores for a key that an epoch changed more than once, and " +
      "that readChangeFeed of Spark's statestore source shows. last is the last change of the " +
      "key. all is every change, as Spark's providers write them, with larger files and more " +
      "work to restore. It applies to epochs that run with it.",
    default = "last",
    KeyType.word("changes", Seq("last", "all")),
    since = "0.1.0"
  )

  val LockAcquireTimeout: Key[Long] = Key(
    "lockAcquireTimeout",
    doc = "How long a task waits for the lock of a state store that another attempt of the " +
      "same task holds. After it the task fails, and Spark runs it again. A shorter " +
      "timeout detects a hanging attempt sooner. A timeout that is too short fails tasks " +
      "whose predecessor is slow to react to its cancellation.",
    default = 120000L,
    KeyType.durationMs(maxMs = 3600000L),
    since = "0.1.0"
  )

  val MaxOffHeapMemory: Key[Long] = Key(
    "maxOffHeapMemory",
    doc = "The off-heap memory limit of one executor for the state of all its stores. State " +
      "above it is in memory-mapped files in Spark's local directories, which the " +
      "operating system keeps in memory if there is room. auto is half of the executor's " +
      "heap. In containers, add it to spark.executor.memoryOverhead. If queries with " +
      "different values share an executor, the store that was opened last decides.",
    default = KeyType.Auto,
    KeyType.bytesOrAuto(min = 1L << 20),
    since = "0.1.0"
  )

  val RealTimeMode: Key[Boolean] = Key(
    "realTimeMode",
    doc = "Uses Cleancut for the queries of a session without providerClass, which must be " +
      "unset: Spark refuses queries in real-time mode in a session that sets another provider " +
      "than RocksDB. It requires the session extension and applies to all queries that start " +
      "while it is true, in real-time mode or not.",
    default = false,
    KeyType.boolean,
    since = "0.1.0"
  )

  val Cuts: Key[Option[String]] = Key(
    "cuts",
    doc = "Whether cuts commit the epochs of a query whose checkpoint location is on a Hadoop " +
      "file system. With cuts, tasks that commit at about the same time share a file, a second " +
      "driver is fenced, and cuts can be listed and retained. It requires the file manager " +
      "io.cleancut.CleancutCheckpointFileManager. auto uses cuts if the checkpoint has some. " +
      "true starts to use cuts, also in an existing checkpoint without them. This cannot be " +
      "undone in place; a clone can be without cuts. false refuses a checkpoint with cuts. A " +
      "location on s3:// always has cuts.",
    default = None,
    KeyType.wordOrAuto("switch", Seq("true", "false")),
    since = "0.1.0"
  )

  val Mode: Key[String] = Key(
    "mode",
    doc = "How tasks that delay their epoch are treated, for example those of a skewed or slow " +
      "partition. aligned waits for them. unaligned overtakes them: a task stops to emit rows, " +
      "and the remaining rows become part of the cut and are processed first in the next epoch. " +
      "auto overtakes them after alignmentTimeout. Overtaking requires cuts, the session " +
      "extension, and a sealing sink. Other operators are aligned, and status() shows the reason.",
    default = "aligned",
    KeyType.word("mode", CaptureMode.names),
    since = "0.1.0"
  )

  val AlignmentTimeout: Key[Long] = Key(
    "alignmentTimeout",
    doc = "How long mode auto waits for a task after it has become a straggler: half of its " +
      "operator's tasks have read their input, and the task has run longer than twice their " +
      "median and 200 ms longer than the median.",
    default = 1000L,
    KeyType.durationMs(maxMs = 3600000L),
    since = "0.1.0"
  )

  val MaxEpochDuration: Key[Long] = Key(
    "maxEpochDuration",
    doc = "The age at which all tasks of an epoch are overtaken in mode unaligned or auto, " +
      "including those that wait for a slot. It is counted from the first task that reads a " +
      "shuffle input. 0ms is no limit.",
    default = 0L,
    KeyType.durationMs(maxMs = 86400000L),
    since = "0.1.0"
  )

  val MaxInFlightBytes: Key[Long] = Key(
    "maxInFlightBytes",
    doc = "The most bytes of in-flight rows of one shuffle input in one partition. Above it, the " +
      "oldest rows are emitted until the rest fits, the epoch waits for them, and so the source " +
      "slows down.",
    default = 64L << 20,
    KeyType.bytes(min = 1L << 10),
    since = "0.1.0"
  )

  val CutRetention: Key[Long] = Key(
    "cutRetention",
    doc = "How long cuts are retained at least, so that a query can roll back to them. Cuts " +
      "of the last spark.sql.streaming.minBatchesToRetain epochs and savepoints are " +
      "always retained. Ages follow the clock of the object store. A cut is a small " +
      "object, but it retains the state that it references, and each garbage collection " +
      "lists all cuts, a thousand in one request.",
    default = 0L,
    KeyType.durationMs(maxMs = MaxRetentionMs),
    since = "0.1.0"
  )

  val HistoryRetention: Key[Long] = Key(
    "historyRetention",
    doc = "How long the history of a query is retained: the duration and cost of its epochs, " +
      "and why some were slow. It outlives the cuts. One request writes up to 64 epochs, " +
      "or those of a minute, at some hundred bytes each. 0ms disables the history.",
    default = 90L * 24 * 3600 * 1000,
    KeyType.durationMs(maxMs = 10 * MaxRetentionMs),
    since = "0.1.0"
  )

  val UiEpochs: Key[Int] = Key(
    "uiEpochs",
    doc = "The number of epochs, of all queries together, that the tab Cuts of Spark's UI shows, " +
      "for a running driver and on a history server. Each takes one or two kilobytes of memory. " +
      "It is read when the driver starts.",
    default = 2000,
    KeyType.int("epochs", min = 1, max = 1000000),
    since = "0.1.0"
  )

  val SplitGroups: Key[Boolean] = Key(
    "splitGroups",
    doc = "Whether a cut may divide the rows of one key in an epoch, if a function receives them " +
      "as a group: flatMapGroupsWithState, applyInPandasWithState, transformWithState and its " +
      "Python variants. true lets a slow key be overtaken within its rows, and the function " +
      "receives the rest in the next epoch. false overtakes only between two keys, so that a " +
      "function that sorts or sums the rows of a key receives all rows of the epoch. It waits " +
      "for a slow key as mode aligned does, but other keys do not wait for it.",
    default = true,
    KeyType.boolean,
    since = "0.1.0"
  )

  val S3Dialect: Key[Option[String]] = Key(
    "s3.dialect",
    doc = "The rules of the S3-compatible object store of an s3:// location. auto derives it " +
      "from the endpoint: aws without an endpoint or below amazonaws.com, r2 below " +
      "r2.cloudflarestorage.com, else generic. It sets the defaults of s3.region and " +
      "s3.pathStyle, and the checksum of each body: CRC-32C for aws, Content-MD5 for the " +
      "others.",
    default = None,
    KeyType.wordOrAuto("name", Seq("aws", "r2", "generic")),
    since = "0.1.0"
  )

  val S3Endpoint: Key[Option[String]] = Key(
    "s3.endpoint",
    doc = "The URL of the object store of an s3:// checkpoint location, for R2 " +
      "https://<account>.r2.cloudflarestorage.com. auto is AWS_ENDPOINT_URL_S3 or " +
      "AWS_ENDPOINT_URL in the environment of each process, else AWS. Credentials come " +
      "from the default chain of the AWS SDK (environment, profile, pod or instance role) " +
      "or from the key s3.profile.",
    default = None,
    KeyType.textOrAuto("URL", "or a URL that begins with https:// or http://", isEndpoint),
    since = "0.1.0"
  )

  val S3PathStyle: Key[Option[String]] = Key(
    "s3.pathStyle",
    doc = "Whether the bucket of an s3:// checkpoint location is in the path of a request " +
      "(true) or in its host name (false). auto is false for the dialect aws and true for " +
      "the others, whose certificates and name servers rarely have a host for each " +
      "bucket.",
    default = None,
    KeyType.wordOrAuto("switch", Seq("true", "false")),
    since = "0.1.0"
  )

  val S3Profile: Key[Option[String]] = Key(
    "s3.profile",
    doc = "The profile of the AWS configuration whose credentials sign the requests to an " +
      "s3:// checkpoint location. It is read from ~/.aws, or from the files in " +
      "AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE. The driver and each executor need " +
      "it. auto is the default chain of the AWS SDK.",
    default = None,
    KeyType.textOrAuto("name", "or the name of a profile", isProfile),
    since = "0.1.0"
  )

  val S3Region: Key[Option[String]] = Key(
    "s3.region",
    doc = "The region that requests to an s3:// checkpoint location are signed for. auto is " +
      "R2's region auto for the dialect r2; AWS_REGION in the environment, else " +
      "us-east-1, for the dialect generic; and the region from the default chain of the " +
      "AWS SDK for aws.",
    default = None,
    KeyType.textOrAuto("name", "or a name of letters, digits and dashes", isRegion),
    since = "0.1.0"
  )

  val RequireProvider: Key[Option[String]] = Key(
    "requireProvider",
    doc = "Whether a stateful query fails at its start if another provider than Cleancut has " +
      "its state. Spark continues with the provider of the checkpoint, whatever the " +
      "session sets, and then neither cuts nor mode have an effect. auto is true if cuts " +
      "is true or mode is not aligned. false only logs a warning. A query without state " +
      "is never refused.",
    default = None,
    KeyType.wordOrAuto("switch", Seq("true", "false")),
    since = "0.1.0"
  )

  val RequestTimeout: Key[Long] = Key(
    "requestTimeout",
    doc = "How long a request to the object store is retried, with increasing pauses, while the " +
      "store is unavailable, slow or throttles requests. A longer timeout bridges longer " +
      "outages. After it, the task or the epoch fails, and Spark decides whether to retry.",
    default = 120000L,
    KeyType.durationMs(maxMs = 3600000L),
    since = "0.1.0"
  )

  val TrustedScheme: Key[Option[String]] = Key(
    "trustedScheme",
    doc = "The scheme of a Hadoop file system, such as maprfs, whose rename is known to be " +
      "exclusive: if several writers on any hosts rename a file to one name at the same time, " +
      "exactly one succeeds, and the others are refused. auto trusts local disks, HDFS, Ozone, " +
      "and Azure accounts with hierarchical namespace, and refuses others. Danger: if the rename " +
      "is not exclusive, two drivers can both commit an epoch, and rows are lost or duplicated " +
      "silently. Each start of a query tests it with 100 races of four writers. If two writers " +
      "win in one of 25 races, 98 of 100 starts detect it; rarer failures are detected less often.",
    default = None,
    KeyType.textOrAuto("name", "or the scheme of a URL", isScheme),
    since = "0.1.0"
  )

  val CheckCompatibility: Key[Boolean] = Key(
    "checkCompatibility",
    doc = "Whether start() compares a query with its checkpoint, as " +
      "cleancut.check_compatibility does. " +
      "It refuses a query that cannot continue from the checkpoint, and lists all " +
      "differences and the remedies. Without the check, such a query fails in its first " +
      "epoch with the first difference that Spark detects. The check takes as long as " +
      "planning the query twice and requires the session extension.",
    default = false,
    KeyType.boolean,
    since = "0.1.0"
  )

  val all: Seq[Key[_]] = Seq(
    AcceleratePython,
    AlignmentTimeout,
    ChangeFeed,
    CheckCompatibility,
    CompressionLevel,
    CutRetention,
    Cuts,
    HandoverTimeout,
    HistoryRetention,
    LazyRestore,
    LocalCacheSize,
    LockAcquireTimeout,
    MaxEpochDuration,
    MaxInFlightBytes,
    MaxOffHeapMemory,
    MergedAggregation,
    Mode,
    PipelinedCuts,
    RealTimeMode,
    RequestTimeout,
    RequireProvider,
    S3AccessPoint,
    S3Dialect,
    S3Encryption,
    S3Endpoint,
    S3MaxConnections,
    S3PathStyle,
    S3Profile,
    S3Region,
    S3RequesterPays,
    SplitGroups,
    StandbyReplicas,
    StatePartitions,
    TrustedScheme,
    UiEpochs
  )

  private val SameValues = "It has the same values."

  /** Removed keys, which a start refuses, with their successors. */
  val removed: Seq[RemovedKey] =
    Seq(
      RemovedKey("accessPoint", "0.1.0", Some(S3AccessPoint), SameValues),
      RemovedKey("acquireTimeout", "0.1.0", Some(LockAcquireTimeout), SameValues),
      RemovedKey("checkCompatible", "0.1.0", Some(CheckCompatibility), SameValues),
      RemovedKey("connections", "0.1.0", Some(S3MaxConnections), SameValues),
      RemovedKey("dialect", "0.1.0", Some(S3Dialect), SameValues),
      RemovedKey("encryption", "0.1.0", Some(S3Encryption), SameValues),
      RemovedKey("endpoint", "0.1.0", Some(S3Endpoint), SameValues),
      RemovedKey("history", "0.1.0", Some(HistoryRetention), SameValues),
      RemovedKey("localBases", "0.1.0", Some(LocalCacheSize), SameValues),
      RemovedKey("memoryBound", "0.1.0", Some(MaxOffHeapMemory), SameValues),
      RemovedKey("pathStyle", "0.1.0", Some(S3PathStyle), SameValues),
      RemovedKey("profile", "0.1.0", Some(S3Profile), SameValues),
      RemovedKey("region", "0.1.0", Some(S3Region), SameValues),
      RemovedKey("requesterPays", "0.1.0", Some(S3RequesterPays), SameValues),
      RemovedKey("require", "0.1.0", Some(RequireProvider), SameValues),
      RemovedKey("retention", "0.1.0", Some(CutRetention), SameValues)
    )

  /** The keys that configure access to the object store of a location. */
  val ofAccess: Seq[Key[_]] =
    Seq(
      S3AccessPoint,
      S3Dialect,
      S3Encryption,
      S3Endpoint,
      S3PathStyle,
      S3Profile,
      S3Region,
      S3RequesterPays
    )

  private def isEndpoint(text: String): Boolean = text.matches("https?://[^\\s/?#]+[^\\s?#]*")

  private def isAccessPoint(text: String): Boolean =
    text.matches("arn:[a-z0-9-]+:s3[a-z0-9-]*:[a-z0-9-]*:[0-9]*:accesspoint[/:][^\\s]+")

  private def isEncryption(text: String): Boolean =
    text.matches("s3|kms(-bucket-key)?(:\\S+)?|customer:.+")

  private def isProfile(text: String): Boolean = text.matches("[^\\s\\[\\]]{1,128}")

  private def isRegion(text: String): Boolean = text.matches("[A-Za-z0-9-]{1,64}")

  private def isScheme(text: String): Boolean = text.matches("[a-z][a-z0-9+.-]{0,63}")
}
