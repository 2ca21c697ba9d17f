package io.cleancut.error

import java.time.Instant

import io.cleancut.base.StoreId

/**
 * One factory per error class of the JVM code. A factory only creates the exception; the `throw` is
 * at the call, where the compiler sees it.
 *
 * Versions are state versions, sizes bytes, waits milliseconds.
 */
object Errors {

  def frameCorrupted(
      path: String,
      operator: Long,
      partition: Int,
      store: String,
      version: Long,
      detail: String
  ): CleancutException =
    make("CLEANCUT_FRAME_CORRUPTED")(
      "path" -> path,
      "detail" -> detail,
      "operator" -> operator,
      "partition" -> partition,
      "store" -> store,
      "version" -> version
    )

  def frameMisplaced(path: String, expected: String, found: String): CleancutException =
    make("CLEANCUT_FRAME_MISPLACED")("path" -> path, "expected" -> expected, "found" -> found)

  def checkpointNotFound(location: String, detail: String): CleancutException =
    make("CLEANCUT_CHECKPOINT_NOT_FOUND")("location" -> location, "detail" -> detail)

  def operationIncomplete(location: String, operation: String, epoch: Long): CleancutException =
    make("CLEANCUT_OPERATION_INCOMPLETE")(
      "location" -> location,
      "operation" -> operation,
      "epoch" -> epoch
    )

  def operationRefused(operation: String, location: String, reason: String): CleancutException =
    make("CLEANCUT_OPERATION_REFUSED")(
      "operation" -> operation,
      "location" -> location,
      "reason" -> reason
    )

  /** @param command that plans the operation again */
  def planOutdated(
      operation: String,
      location: String,
      reason: String,
      command: String
  ): CleancutException = make("CLEANCUT_PLAN_OUTDATED")(
    "operation" -> operation,
    "location" -> location,
    "reason" -> reason,
    "command" -> command
  )

  /** @param epoch epoch of the rescale */
  def rescaleInterrupted(
      location: String,
      partitions: Int,
      epoch: Long,
      cause: Throwable
  ): CleancutException = make("CLEANCUT_RESCALE_INTERRUPTED", cause)(
    "location" -> location,
    "partitions" -> partitions,
    "epoch" -> epoch,
    "reason" -> Option(cause.getMessage).getOrElse(cause.toString)
  )

  def rewriteMismatch(
      location: String,
      operator: Long,
      partition: Int,
      store: String,
      readRows: Long,
      writtenRows: Long
  ): CleancutException = make("CLEANCUT_REWRITE_MISMATCH")(
    "location" -> location,
    "operator" -> operator,
    "partition" -> partition,
    "store" -> store,
    "readRows" -> readRows,
    "writtenRows" -> writtenRows
  )

  def spillFailed(requestedBytes: Long, mappedBytes: Long, cause: Throwable): CleancutException =
    make("CLEANCUT_SPILL_FAILED", cause)(
      "requestedBytes" -> requestedBytes,
      "mappedBytes" -> mappedBytes,
      "detail" -> cause.toString
    )

  def frameMissing(
      directory: String,
      operator: Long,
      partition: Int,
      store: String,
      version: Long,
      detail: String
  ): CleancutException =
    make("CLEANCUT_FRAME_MISSING")(
      "directory" -> directory,
      "detail" -> detail,
      "operator" -> operator,
      "partition" -> partition,
      "store" -> store,
      "version" -> version
    )

  def formatUnknown(path: String, found: String, supported: String): CleancutException =
    make("CLEANCUT_FORMAT_UNKNOWN")("path" -> path, "found" -> found, "supported" -> supported)

  /** @param path path of the unreadable object */
  def channelCorrupted(path: String, detail: String, cause: Throwable = null): CleancutException =
    make("CLEANCUT_CHANNEL_CORRUPTED", cause)("path" -> path, "detail" -> detail)

  def channelEmpty(channel: String): CleancutException =
    make("CLEANCUT_CHANNEL_EMPTY")("channel" -> channel)

  /** @param next the epoch that the next existing one follows */
  def channelExpired(channel: String, read: Long, next: Long): CleancutException =
    make("CLEANCUT_CHANNEL_EXPIRED")("channel" -> channel, "read" -> read, "next" -> next)

  def channelInvalid(path: String, epoch: Long): CleancutException =
    make("CLEANCUT_CHANNEL_INVALID")("path" -> path, "epoch" -> epoch)

  /** @param before text for the epoch that the found one follows */
  def channelRolledBack(
      channel: String,
      sender: String,
      read: Long,
      found: Long,
      before: String
  ): CleancutException = make("CLEANCUT_CHANNEL_ROLLED_BACK")(
    "channel" -> channel,
    "sender" -> sender,
    "read" -> read,
    "found" -> found,
    "before" -> before
  )

  def fileSystemReadOnly(operation: String, path: String): CleancutException =
    make("CLEANCUT_FILE_SYSTEM_READ_ONLY")("operation" -> operation, "path" -> path)

  def storeBusy(
      operator: Long,
      partition: Int,
      store: String,
      version: Long,
      holder: String,
      waitedMs: Long
  ): CleancutException =
    make("CLEANCUT_STORE_BUSY")(
      "holder" -> holder,
      "waitedMs" -> waitedMs,
      "operator" -> operator,
      "partition" -> partition,
      "store" -> store,
      "version" -> version
    )

  def storeClosed(store: String, operation: String): CleancutException =
    make("CLEANCUT_STORE_CLOSED")("store" -> store, "operation" -> operation)

  def storeTooLarge(store: String, limitBytes: Long): CleancutException =
    make("CLEANCUT_STORE_TOO_LARGE")("store" -> store, "limitBytes" -> limitBytes)

  def rowTooLarge(store: String, sizeBytes: Long, limitBytes: Long): CleancutException =
    make("CLEANCUT_ROW_TOO_LARGE")(
      "store" -> store,
      "sizeBytes" -> sizeBytes,
      "limitBytes" -> limitBytes
    )

  def unsupportedFeature(feature: String, reason: String): CleancutException =
    make("CLEANCUT_UNSUPPORTED_FEATURE")("feature" -> feature, "reason" -> reason)

  /** @param problems one sentence for each invalid key; all are reported at once */
  def confInvalid(problems: Seq[String]): CleancutException =
    make("CLEANCUT_CONF_INVALID")("problems" -> problems.mkString(" "))

  def commitFailed(path: String, version: Long, cause: Throwable): CleancutException =
    make("CLEANCUT_COMMIT_FAILED", cause)(
      "path" -> path,
      "version" -> version,
      "detail" -> cause.toString
    )

  def platformUnsupported(detail: String): CleancutException =
    make("CLEANCUT_PLATFORM_UNSUPPORTED")("detail" -> detail)

  /**
   * @param problems
   *   sentences, each with its remedy
   * @param spark
   *   the supported Spark lines
   */
  def versionUnsupported(problems: String, spark: String): CleancutException =
    make("CLEANCUT_VERSION_UNSUPPORTED")(
      "problems" -> problems,
      "spark" -> spark,
      "scala" -> "2.13",
      "java" -> "17 or later"
    )

  def offHeapExhausted(requestedBytes: Long, usedBytes: Long): CleancutException =
    make("CLEANCUT_OFF_HEAP_EXHAUSTED")(
      "requestedBytes" -> requestedBytes,
      "usedBytes" -> usedBytes
    )

  /** @param waitedMs time since the first attempt */
  def objectStoreUnavailable(
      operation: String,
      target: String,
      attempts: Int,
      waitedMs: Long,
      cause: Throwable
  ): CleancutException =
    make("CLEANCUT_OBJECT_STORE_UNAVAILABLE", cause)(
      "operation" -> operation,
      "target" -> target,
      "attempts" -> attempts,
      "waitedMs" -> waitedMs,
      "detail" -> cause.toString
    )

  def objectStoreRefused(
      operation: String,
      target: String,
      detail: String,
      cause: Throwable = null
  ): CleancutException =
    make("CLEANCUT_OBJECT_STORE_REFUSED", cause)(
      "operation" -> operation,
      "target" -> target,
      "detail" -> detail.stripSuffix(".")
    )

  /**
   * @param content
   *   the content that makes it too large
   * @param advice
   *   a sentence with the required change
   */
  def objectTooLarge(
      name: String,
      limitBytes: Long,
      content: String,
      advice: String
  ): CleancutException =
    make("CLEANCUT_OBJECT_TOO_LARGE")(
      "object" -> name,
      "limitBytes" -> limitBytes,
      "content" -> content,
      "advice" -> advice
    )

  /** @param advice a sentence with the required change */
  def objectStoreUnsafe(location: String, finding: String, advice: String): CleancutException =
    make("CLEANCUT_OBJECT_STORE_UNSAFE")(
      "location" -> location,
      "finding" -> finding,
      "advice" -> advice
    )

  def objectLocationInvalid(location: String, detail: String): CleancutException =
    make("CLEANCUT_OBJECT_LOCATION_INVALID")("location" -> location, "detail" -> detail)

  /** @param path path of the entry */
  def offsetsMissing(location: String, epoch: Long, path: String): CleancutException =
    make("CLEANCUT_OFFSETS_MISSING")(
      "location" -> location,
      "epoch" -> epoch.toString,
      "path" -> path
    )

  /**
   * @param entry
   *   the last epoch of the offset log; None if it is empty
   * @param epoch
   *   the last epoch with a cut
   */
  def offsetsDeleted(location: String, entry: Option[Long], epoch: Long): CleancutException =
    make("CLEANCUT_OFFSETS_DELETED")(
      "location" -> location,
      "log" -> entry.fold("is empty")(last => s"ends with epoch $last"),
      "epoch" -> epoch
    )

  /** @param path path of the file */
  def metadataMissing(location: String, path: String, query: String): CleancutException =
    make("CLEANCUT_METADATA_MISSING")("location" -> location, "path" -> path, "query" -> query)

  def cutCorrupted(path: String, detail: String): CleancutException =
    make("CLEANCUT_CUT_CORRUPTED")("path" -> path, "detail" -> detail)

  def queryIncompatible(location: String, epoch: Long, differences: String): CleancutException =
    make("CLEANCUT_QUERY_INCOMPATIBLE")(
      "location" -> location,
      "epoch" -> epoch.toString,
      "differences" -> differences
    )

  /**
   * @param reason
   *   why the query requires cuts
   * @param finding
   *   why it would have none
   */
  def cutsRequired(location: String, reason: String, finding: String): CleancutException =
    make("CLEANCUT_CUTS_REQUIRED")(
      "location" -> location,
      "reason" -> reason,
      "finding" -> finding
    )

  /**
   * @param committed
   *   the last epoch of Spark's commit log
   * @param epoch
   *   the last epoch with a cut
   */
  def commitLogAhead(location: String, committed: Long, epoch: Long): CleancutException =
    make("CLEANCUT_COMMIT_LOG_AHEAD")(
      "location" -> location,
      "committed" -> committed,
      "epoch" -> epoch
    )

  /** @param owner description from its ownership note */
  def fenced(location: String, epoch: Long, owner: String): CleancutException =
    make("CLEANCUT_FENCED")("location" -> location, "epoch" -> epoch, "owner" -> owner)

  /** @param path path of an entry of Spark's log */
  def offsetLogConflict(path: String, cause: Throwable = null): CleancutException =
    make("CLEANCUT_OFFSET_LOG_CONFLICT", cause)("path" -> path)

  def epochIncomplete(location: String, epoch: Long, stores: String): CleancutException =
    make("CLEANCUT_EPOCH_INCOMPLETE")("location" -> location, "epoch" -> epoch, "stores" -> stores)

  def maintenanceFailed(
      location: String,
      task: String,
      failures: Int,
      tolerable: Int,
      detail: String
  ): CleancutException =
    make("CLEANCUT_MAINTENANCE_FAILED")(
      "location" -> location,
      "task" -> task,
      "failures" -> failures,
      "tolerable" -> tolerable,
      "detail" -> detail
    )

  def coordinatorUnreachable(
      location: String,
      frame: String,
      detail: String,
      cause: Throwable = null
  ): CleancutException =
    make("CLEANCUT_COORDINATOR_UNREACHABLE", cause)(
      "location" -> location,
      "frame" -> frame,
      "detail" -> detail
    )

  def coordinatorMissing(location: String): CleancutException =
    make("CLEANCUT_COORDINATOR_MISSING")("location" -> location)

  def sealBatchInvalid(epoch: Long): CleancutException =
    make("CLEANCUT_SEAL_BATCH_INVALID")("epoch" -> epoch)

  def inFlightNotConsumed(
      location: String,
      epoch: Long,
      inputs: Seq[StoreId]
  ): CleancutException =
    make("CLEANCUT_IN_FLIGHT_NOT_CONSUMED")(
      "location" -> location,
      "epoch" -> epoch,
      "stores" -> inputs.mkString("; ")
    )

  def inFlightSchemaMismatch(
      location: String,
      input: StoreId,
      stored: String,
      required: String
  ): CleancutException =
    make("CLEANCUT_IN_FLIGHT_SCHEMA_MISMATCH")(
      "location" -> location,
      "store" -> input.toString,
      "stored" -> stored,
      "required" -> required
    )

  def inFlightInputMismatch(
      location: String,
      epoch: Long,
      seal: String,
      input: StoreId,
      decidedRows: Long,
      foundRows: Long
  ): CleancutException =
    make("CLEANCUT_IN_FLIGHT_INPUT_MISMATCH")(
      "location" -> location,
      "epoch" -> epoch,
      "seal" -> seal,
      "store" -> input.toString,
      "decidedRows" -> decidedRows,
      "foundRows" -> foundRows
    )

  def modeRequiresCuts(location: String, mode: String): CleancutException =
    make("CLEANCUT_MODE_REQUIRES_CUTS")("location" -> location, "mode" -> mode)

  /** @param packages names of Python packages, separated by spaces */
  def pythonPackageMissing(
      function: String,
      python: String,
      packages: String
  ): CleancutException =
    make("CLEANCUT_PYTHON_PACKAGE_MISSING")(
      "function" -> function,
      "python" -> python,
      "packages" -> packages
    )

  /** @param reason why that provider is required */
  def providerMismatch(location: String, provider: String, reason: String): CleancutException =
    make("CLEANCUT_PROVIDER_MISMATCH")(
      "location" -> location,
      "provider" -> provider,
      "reason" -> reason
    )

  def savepointInvalid(name: String, location: String, detail: String): CleancutException =
    make("CLEANCUT_SAVEPOINT_INVALID")("name" -> name, "location" -> location, "detail" -> detail)

  /**
   * @param after
   *   the last emitted number
   * @param before
   *   the lowest held number after the gap
   */
  def sequenceGap(key: String, after: Long, before: Long, sinceMs: Long): CleancutException =
    make("CLEANCUT_SEQUENCE_GAP")(
      "key" -> key,
      "after" -> after,
      "before" -> before,
      "since" -> Instant.ofEpochMilli(sinceMs)
    )

  /** The parameters are those of [[sequenceGap]]. */
  def sequenceFull(key: String, held: Int, after: Long, before: Long): CleancutException =
    make("CLEANCUT_SEQUENCE_FULL")(
      "key" -> key,
      "held" -> held,
      "after" -> after,
      "before" -> before
    )

  def sequenceBroken(key: String, number: String, reason: String): CleancutException =
    make("CLEANCUT_SEQUENCE_BROKEN")("key" -> key, "number" -> number, "reason" -> reason)

  def sequenceInvalid(problem: String): CleancutException =
    make("CLEANCUT_SEQUENCE_INVALID")("problem" -> problem)

  private def make(
      id: String,
      cause: Throwable = null
  )(facts: (String, Any)*): CleancutException = {
    val errorClass = ErrorCatalog.classes(id)
    // Truncated texts of other libraries are complete in the cause.
    val params =
      errorClass.fitted(facts.map { case (name, value) => name -> String.valueOf(value) })
    new CleancutException(id, errorClass.kind, params, errorClass.render(params), cause)
  }
}
