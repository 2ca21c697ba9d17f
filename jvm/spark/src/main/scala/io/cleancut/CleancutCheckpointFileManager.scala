package io.cleancut

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.cleancut.operations.start.StartRescale
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.{InstalledJars, StartErrors}
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles.FileManagers
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.DelegatedFiles

/**
 * Spark's manager of checkpoint files, for
 * `spark.sql.streaming.checkpointFileManagerClass=io.cleancut.CleancutCheckpointFileManager`.
 *
 * It allows a checkpoint location of `s3://bucket/prefix` without a Hadoop file system for that
 * scheme. Other locations use the file manager that Spark would choose; there, it commits the
 * epochs of a query with cuts if the key `cuts` or the checkpoint says so.
 *
 * @param path
 *   the checkpoint location, or a directory in it
 * @throws java.lang.IllegalArgumentException
 *   at the first call, with an error of Cleancut as its cause: CLEANCUT_VERSION_UNSUPPORTED,
 *   CLEANCUT_CONF_INVALID, CLEANCUT_OBJECT_LOCATION_INVALID, and if a query is started
 *   CLEANCUT_PROVIDER_MISMATCH, CLEANCUT_CUTS_REQUIRED, CLEANCUT_COMMIT_LOG_AHEAD,
 *   CLEANCUT_OBJECT_STORE_UNSAFE
 */
class CleancutCheckpointFileManager(path: Path, hadoopConf: Configuration)
    extends DelegatedFiles(StartErrors.convert {
      InstalledJars.check()
      FileManagers.open(path, hadoopConf, StartRescale.run)
    }) {
  override def createCheckpointDirectory(): Path =
    StartErrors.convert(super.createCheckpointDirectory())
}
