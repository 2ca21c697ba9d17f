package org.apache.spark.sql.execution.streaming.state.cleancut.sinks

import org.apache.spark.internal.io.FileCommitProtocol

/** Spark's writers request files by a prefix and a suffix. */
abstract private[sinks] class NamedBySpec extends FileCommitProtocol
