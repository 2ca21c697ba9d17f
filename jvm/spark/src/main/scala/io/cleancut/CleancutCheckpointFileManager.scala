package io.cleancut

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.cleancut.operations.start.StartRescale
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.InstalledJars
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles.FileManagers
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.DelegatedFiles

/**
 * Spark's way to the files of a checkpoint, for
 * `spark.sql.streaming.checkpointFileManagerClass=io.cleancut.CleancutCheckpointFileManager`.
 *
 * With it a query's checkpoint location may be `s3://bucket/prefix` without a Hadoop file system
 * for that scheme. Every other location goes through the file manager that Spark would take; there
 * too it commits a query's epochs by cuts, if the key `cuts` or the checkpoint says so.
 *
 * @param path
 *   what this manager is for
 * @throws io.cleancut.error.CleancutException
 *   CLEANCUT_VERSION_UNSUPPORTED, CLEANCUT_CONF_INVALID, CLEANCUT_OBJECT_LOCATION_INVALID, and
 *   where a query is started CLEANCUT_PROVIDER_MISMATCH, CLEANCUT_CUTS_REQUIRED,
 *   CLEANCUT_COMMIT_LOG_AHEAD, CLEANCUT_OBJECT_STORE_UNSAFE
 */
class CleancutCheckpointFileManager(path: Path, hadoopConf: Configuration)
    extends DelegatedFiles({
      InstalledJars.check()
      FileManagers.open(path, hadoopConf, StartRescale.run)
    })
