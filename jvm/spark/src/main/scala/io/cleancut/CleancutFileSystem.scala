package io.cleancut

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles.BucketFileSystem

/** Read access to `s3://` for Hadoop: the class for `fs.s3.impl`. */
class CleancutFileSystem extends BucketFileSystem
