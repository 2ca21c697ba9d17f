package io.cleancut

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles.BucketFileSystem

/** Reads `s3://` for Hadoop: the class that `fs.s3.impl` names. */
class CleancutFileSystem extends BucketFileSystem
