package io.cleancut.conf

/**
 * Every configuration key of Cleancut. What Spark has a key for already (versions to keep, deltas
 * before a snapshot, maintenance interval) is read from Spark's key and has none here.
 */
object Keys {

  /** Spark hands the keys below `spark.sql.streaming.stateStore.` to executors, and no others. */
  val Prefix = "spark.sql.streaming.stateStore.cleancut."

  private val MaxRetentionMs = 366L * 24 * 3600 * 1000
  private val MaxPartitions = 1000000

  val AccessPoint: Key[Option[String]] = Key(
    "accessPoint",
    doc = "The ARN of an access point that requests to an s3:// location go to, in place of the " +
      "bucket in its URL, which then is a name for messages only. An alias of an access point " +
      "needs no key: it stands in the URL as a bucket does. auto is the bucket itself.",
    default = None,
    KeyType.textOrAuto("name", "or the ARN of an access point", isAccessPoint),
    since = "0.1.0"
  )

  val Connections: Key[Int] = Key(
    "connections",
    doc = "How many connections one process keeps to the store of an s3:// location. More than " +
      "its tasks and their uploads use at once gain nothing; with fewer, requests wait.",
    default = 64,
    KeyType.int("connections", min = 1, max = 10000),
    since = "0.1.0"
  )

  val Encryption: Key[Option[String]] = Key(
    "encryption",
    doc = "What the store of an s3:// location encrypts new objects with. auto is what is set " +
      "for the bucket. s3 is a key of the store's own (SSE-S3). kms is the account's key of the " +
      "key management service, kms:<id or ARN> another one, and kms-bucket-key or " +
      "kms-bucket-key:<id or ARN> the same with one data key for many objects, which costs less. " +
      "customer:<file> is a key of your own (SSE-C): the file has its 32 bytes in base64, and is " +
      "on the driver and on each executor. Without that key nothing can be read again.",
    default = None,
    KeyType.textOrAuto(
      "name",
      "s3, kms, kms:<key>, kms-bucket-key, kms-bucket-key:<key> or customer:<file>",
      isEncryption
    ),
    since = "0.1.0"
  )

  val RequesterPays: Key[Boolean] = Key(
    "requesterPays",
    doc = "Whether requests to an s3:// location say that this side pays for them, which a " +
      "bucket with that setting demands of whoever does not own it.",
    default = false,
    KeyType.boolean,
    since = "0.1.0"
  )

  val CompressionLevel: Key[Int] = Key(
    "compressionLevel",
    doc = "How hard zstd works on what a commit writes. A higher level makes smaller files and " +
      "costs processor time within the task at every commit; a negative level is faster than 1 " +
      "and compresses less. Files of any level can be read whatever the level is now.",
    default = -2,
    KeyType.int("zstd level", min = -7, max = 19),
    since = "0.1.0"
  )

  val LazyRestore: Key[Boolean] = Key(
    "lazyRestore",
    doc = "Whether a store is opened before its base has been read. Rows are then read as they " +
      "are asked for, a block of some thousand at a time, and the rest while no task needs the " +
      "store, as far as memoryBound has room for it. What is scanned in the order of its keys is " +
      "read at once in any case, as is a base of less than 1 MiB. false reads all before the " +
      "first row, and finds damage then.",
    default = true,
    KeyType.boolean,
    since = "0.1.0"
  )

  val MergedAggregation: Key[Boolean] = Key(
    "mergedAggregation",
    doc =
      "Whether the state of a group is merged with what an epoch has for it where it is read, " +
        "and results are computed where it is saved, for which Spark builds a hash map each. For " +
        "groupBy with functions of fixed size, such as those of numbers; rows and state are the " +
        "same. false leaves Spark's plan as it is, which may be changed with each start.",
    default = true,
    KeyType.boolean,
    since = "0.1.0"
  )

  val LocalBases: Key[Long] = Key(
    "localBases",
    doc = "How much of Spark's local directories one executor uses to keep bases that it has " +
      "fetched or written, of all its stores together. A store that comes back to it, or a run " +
      "that begins again there, fetches only what came after. 0k keeps none. Locations on a " +
      "local disk have no use for it.",
    default = 10L << 30,
    KeyType.bytes(min = 0L),
    since = "0.1.0"
  )

  val StandbyReplicas: Key[Int] = Key(
    "standbyReplicas",
    doc = "How many executors, beside the one that works on a store, keep a copy of its base on " +
      "their local disks, so that a task which fails over to one of them fetches only what came " +
      "after the base. Copies are on other hosts where there are any, are fetched a second after " +
      "the base, and count in localBases. For locations in a bucket or on a file system that is " +
      "no local disk, where cuts are made.",
    default = 0,
    KeyType.int("replicas", min = 0, max = 16),
    since = "0.1.0"
  )

  val StatePartitions: Key[Option[String]] = Key(
    "statePartitions",
    doc = "Over how many partitions the state of a query is spread. auto is as it is in its " +
      "checkpoint; a query that is new has spark.sql.shuffle.partitions. With a number a query " +
      "that has another one is rescaled when it is started, by an epoch of its own, which takes " +
      "as long as its state is read and written; with cuts, and a multiple or a part of what it " +
      "has, about a second. Its state store provider does not matter. Where that cannot be done " +
      "yet, because an epoch has been begun and not committed, a warning says so, and the next " +
      "start does it. Not for queries that write to Spark's own sink of files: use " +
      "cleancut.rescale with file_sink.",
    default = None,
    KeyType.textOrAuto(
      "partitions",
      s"or a whole number from 1 to $MaxPartitions",
      text => text.toIntOption.exists(of => of >= 1 && of <= MaxPartitions)
    ),
    since = "0.1.0"
  )

  val ChangeFeed: Key[String] = Key(
    "changeFeed",
    doc = "What a commit keeps of the changes of a key that an epoch changed more than once, and " +
      "so what readChangeFeed of Spark's statestore source shows. last is what became of the " +
      "key. all is every change, as Spark's own providers write them: larger files, and more " +
      "work to restore. It holds for epochs from then on.",
    default = "last",
    KeyType.word("changes", Seq("last", "all")),
    since = "0.1.0"
  )

  val AcquireTimeout: Key[Long] = Key(
    "acquireTimeout",
    doc = "How long a task waits for a state store that another attempt of the same task still " +
      "holds, before it fails and Spark runs it again. Shorter finds a hanging attempt sooner; " +
      "too short fails tasks whose predecessor is only slow to notice that it was cancelled.",
    default = 120000L,
    KeyType.durationMs(maxMs = 3600000L),
    since = "0.1.0"
  )

  val MemoryBound: Key[Long] = Key(
    "memoryBound",
    doc = "How much memory outside the heap the state of one executor takes, all its stores " +
      "together. What goes beyond lies in memory-mapped files in Spark's local directories, " +
      "which the operating system keeps in memory as far as there is room. auto is half of the " +
      "executor's heap. Where executors run in containers, the bound is part of " +
      "spark.executor.memoryOverhead. The query whose store was opened last sets it.",
    default = KeyType.Auto,
    KeyType.bytesOrAuto(min = 1L << 20),
    since = "0.1.0"
  )

  val RealTimeMode: Key[Boolean] = Key(
    "realTimeMode",
    doc = "Keeps the state of a session's queries in Cleancut without providerClass, which must " +
      "then stay unset: Spark refuses a query in real-time mode in a session that names any " +
      "provider but RocksDB. It needs the session extension, and holds for all queries that are " +
      "started while it is true, in real-time mode or not.",
    default = false,
    KeyType.boolean,
    since = "0.1.0"
  )

  val Cuts: Key[Option[String]] = Key(
    "cuts",
    doc = "Whether cuts commit the epochs of a query whose checkpoint location is on a file " +
      "system of Hadoop: tasks that commit at about the same time share a file, a second driver " +
      "is fenced, and cuts can be listed and kept. It needs the file manager " +
      "io.cleancut.CleancutCheckpointFileManager. auto goes on as the checkpoint is: with cuts " +
      "if it has any. true begins with cuts, in a checkpoint that has none yet too; there is no " +
      "way back. false refuses a checkpoint that has cuts. A location on s3:// always has them.",
    default = None,
    KeyType.wordOrAuto("switch", Seq("true", "false")),
    since = "0.1.0"
  )

  val Mode: Key[String] = Key(
    "mode",
    doc = "What becomes of a task that holds its epoch up, as a partition does that is skewed or " +
      "slow. aligned waits for it. unaligned overtakes it: it stops to hand rows on, and those " +
      "that are left become part of the cut and come first in the next epoch. auto overtakes it " +
      "after alignmentTimeout. Overtaking needs cuts, the session extension, and a sink that " +
      "seals its epochs; operators that cannot be overtaken are aligned, and status() says why.",
    default = "aligned",
    KeyType.word("mode", CaptureMode.names),
    since = "0.1.0"
  )

  val AlignmentTimeout: Key[Long] = Key(
    "alignmentTimeout",
    doc = "How long mode auto waits for a task after it has become a straggler: half of its " +
      "operator's tasks have read their input, and it has run longer than twice their median, " +
      "and 200 ms longer.",
    default = 1000L,
    KeyType.durationMs(maxMs = 3600000L),
    since = "0.1.0"
  )

  val MaxEpochDuration: Key[Long] = Key(
    "maxEpochDuration",
    doc = "After how long an epoch is cut as a whole in mode unaligned or auto, counted from the " +
      "first of its tasks that reads a channel: all tasks are overtaken, also those that wait " +
      "for a slot. 0ms is no limit.",
    default = 0L,
    KeyType.durationMs(maxMs = 86400000L),
    since = "0.1.0"
  )

  val MaxInFlightBytes: Key[Long] = Key(
    "maxInFlightBytes",
    doc = "How many bytes of rows one channel of one partition keeps in flight. Beyond it the " +
      "oldest are handed on until the rest fits, the epoch waits for these, and so the source " +
      "slows down.",
    default = 64L << 20,
    KeyType.bytes(min = 1L << 10),
    since = "0.1.0"
  )

  val Retention: Key[Long] = Key(
    "retention",
    doc = "How long cuts are kept at least, so that a query can go back to them. Those of the " +
      "last spark.sql.streaming.minBatchesToRetain epochs are kept in any case, and those that " +
      "have a name. Ages are those of the objects, by the clock of the store. A cut is a small " +
      "object, but it keeps the state that it leads to, and each sweep lists all of them: a " +
      "thousand in a request.",
    default = 0L,
    KeyType.durationMs(maxMs = MaxRetentionMs),
    since = "0.1.0"
  )

  val History: Key[Long] = Key(
    "history",
    doc = "How long it is kept what the epochs of a query took, and why some were slow, after " +
      "their cuts are gone. It is written beside the cuts, in a request for 64 epochs or for " +
      "those of a minute, and takes some hundred bytes for each. 0ms keeps none.",
    default = 90L * 24 * 3600 * 1000,
    KeyType.durationMs(maxMs = 10 * MaxRetentionMs),
    since = "0.1.0"
  )

  val UiEpochs: Key[Int] = Key(
    "uiEpochs",
    doc = "How many epochs, of all queries together, the tab Cuts of Spark's pages shows, of a " +
      "driver that runs and on a history server. Each takes a kilobyte or two of memory there. " +
      "It is read when the driver starts.",
    default = 2000,
    KeyType.int("epochs", min = 1, max = 1000000),
    since = "0.1.0"
  )

  val SplitGroups: Key[Boolean] = Key(
    "splitGroups",
    doc = "Whether a cut may fall within the rows that one key has in an epoch, where a function " +
      "gets them as a group: flatMapGroupsWithState, applyInPandasWithState, transformWithState " +
      "and its Python twins. true lets a slow key be overtaken within its rows; the function " +
      "then gets the rest in the next epoch. false overtakes between two keys only, so that a " +
      "function which sorts the rows of a key, or sums them up, has all those of the epoch; it " +
      "waits for a slow key as mode aligned does, but the other keys do not wait behind it.",
    default = true,
    KeyType.boolean,
    since = "0.1.0"
  )

  val Dialect: Key[Option[String]] = Key(
    "dialect",
    doc = "Which rules the S3-compatible store of an s3:// location follows. auto goes by the " +
      "endpoint: aws without one or below amazonaws.com, r2 below r2.cloudflarestorage.com, else " +
      "generic. It sets the defaults of region and pathStyle, and the checksum that is sent " +
      "with each body: CRC-32C to aws, Content-MD5 to the others.",
    default = None,
    KeyType.wordOrAuto("name", Seq("aws", "r2", "generic")),
    since = "0.1.0"
  )

  val Endpoint: Key[Option[String]] = Key(
    "endpoint",
    doc = "Where the store of an s3:// checkpoint location listens, for R2 " +
      "https://<account>.r2.cloudflarestorage.com. auto is AWS_ENDPOINT_URL_S3 or " +
      "AWS_ENDPOINT_URL of the environment of each process, else AWS itself. Credentials come " +
      "from the default chain of the AWS SDK: environment, profile, pod or instance role; the " +
      "key profile names others.",
    default = None,
    KeyType.textOrAuto("URL", "or a URL that begins with https:// or http://", isEndpoint),
    since = "0.1.0"
  )

  val PathStyle: Key[Option[String]] = Key(
    "pathStyle",
    doc = "Whether the bucket of an s3:// checkpoint location stands in the path of a request " +
      "(true) or in its host name (false). auto is false for the dialect aws and true for the " +
      "others, whose certificates and name servers seldom know a host for each bucket.",
    default = None,
    KeyType.wordOrAuto("switch", Seq("true", "false")),
    since = "0.1.0"
  )

  val Profile: Key[Option[String]] = Key(
    "profile",
    doc = "The profile of the AWS configuration (~/.aws, or the files that " +
      "AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name) whose credentials requests to an " +
      "s3:// checkpoint location are signed with. The driver and each executor need it. auto is " +
      "the default chain of the AWS SDK.",
    default = None,
    KeyType.textOrAuto("name", "or the name of a profile", isProfile),
    since = "0.1.0"
  )

  val Region: Key[Option[String]] = Key(
    "region",
    doc = "The region that requests to an s3:// checkpoint location are signed for. auto is R2's " +
      "own region of that name for the dialect r2, AWS_REGION of the environment, else us-east-1 " +
      "for the dialect generic, and what the default chain of the AWS SDK finds for aws.",
    default = None,
    KeyType.textOrAuto("name", "or a name of letters, digits and dashes", isRegion),
    since = "0.1.0"
  )

  val Require: Key[Option[String]] = Key(
    "require",
    doc = "Whether a query with state fails at its start where that state is kept by another " +
      "provider than Cleancut: Spark goes on with the provider that a checkpoint began with, " +
      "whatever the session says, and then neither cuts nor mode have any effect. auto is true " +
      "where cuts is true or mode is not aligned; false only logs a warning. A query without " +
      "state is never refused.",
    default = None,
    KeyType.wordOrAuto("switch", Seq("true", "false")),
    since = "0.1.0"
  )

  val RequestTimeout: Key[Long] = Key(
    "requestTimeout",
    doc = "How long a request to the object store is repeated, with growing pauses, while the " +
      "store is out of reach, slow or asks to be spared. Longer rides out longer outages; when " +
      "it is over, the task or the epoch fails and Spark decides.",
    default = 120000L,
    KeyType.durationMs(maxMs = 3600000L),
    since = "0.1.0"
  )

  val TrustedScheme: Key[Option[String]] = Key(
    "trustedScheme",
    doc = "The scheme of a file system of Hadoop, such as maprfs, whose rename you know to " +
      "decide between writers: of several that rename a file to one name at the same time, on " +
      "whatever hosts, exactly one succeeds, and the others are refused. auto trusts local " +
      "disks, HDFS, Ozone, and Azure accounts with hierarchical namespace, and refuses others. " +
      "Danger: if it is not so, two drivers can both commit an epoch, and rows are lost or " +
      "doubled without a word. Each start of a query lets four writers race for a name, 100 " +
      "times; what lets two win once in 25 races is found out by 98 of 100 starts, and what does " +
      "so more seldom less.",
    default = None,
    KeyType.textOrAuto("name", "or the scheme of a URL", isScheme),
    since = "0.1.0"
  )

  val CheckCompatible: Key[Boolean] = Key(
    "checkCompatible",
    doc = "Whether a query that is started on a checkpoint is compared with it first, as " +
      "cleancut.compatible does. One that could not go on from there is refused by start(), " +
      "with all that differs and what can be done about it; without this it fails in its " +
      "first epoch, with the first thing that Spark does not like. It takes as long as " +
      "planning the query twice. Needs the session extension.",
    default = false,
    KeyType.boolean,
    since = "0.1.0"
  )

  val all: Seq[Key[_]] = Seq(
    AccessPoint,
    AcquireTimeout,
    AlignmentTimeout,
    ChangeFeed,
    CheckCompatible,
    CompressionLevel,
    Connections,
    Cuts,
    Dialect,
    Encryption,
    Endpoint,
    History,
    LazyRestore,
    LocalBases,
    MaxEpochDuration,
    MaxInFlightBytes,
    MemoryBound,
    MergedAggregation,
    Mode,
    PathStyle,
    Profile,
    RealTimeMode,
    Region,
    RequestTimeout,
    RequesterPays,
    Require,
    Retention,
    SplitGroups,
    StandbyReplicas,
    StatePartitions,
    TrustedScheme,
    UiEpochs
  )

  /** Those that are gone; one that a release has promised comes here when it goes. */
  val removed: Seq[RemovedKey] = Nil

  /** What says how the store of a location is reached, and as whom. */
  val ofAccess: Seq[Key[_]] =
    Seq(AccessPoint, Dialect, Encryption, Endpoint, PathStyle, Profile, Region, RequesterPays)

  private def isEndpoint(text: String): Boolean = text.matches("https?://[^\\s/?#]+[^\\s?#]*")

  private def isAccessPoint(text: String): Boolean =
    text.matches("arn:[a-z0-9-]+:s3[a-z0-9-]*:[a-z0-9-]*:[0-9]*:accesspoint[/:][^\\s]+")

  private def isEncryption(text: String): Boolean =
    text.matches("s3|kms(-bucket-key)?(:\\S+)?|customer:.+")

  private def isProfile(text: String): Boolean = text.matches("[^\\s\\[\\]]{1,128}")

  private def isRegion(text: String): Boolean = text.matches("[A-Za-z0-9-]{1,64}")

  private def isScheme(text: String): Boolean = text.matches("[a-z][a-z0-9+.-]{0,63}")
}
