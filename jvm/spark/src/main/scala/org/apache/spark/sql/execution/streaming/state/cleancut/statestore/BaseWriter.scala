package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.hadoop.fs.FileAlreadyExistsException

import io.cleancut.base.StateVersion
import io.cleancut.engine.StateLog
import io.cleancut.format.FrameKind

/** Writes the latest sealed version of a log as a base. */
private[cleancut] object BaseWriter {

  /** May run in any thread that holds the log; tasks continue to write meanwhile. */
  def write(context: StoreContext, versions: StoreVersions, log: StateLog): Unit =
    log
      .pin(log.latest.number) { version =>
        version.id
          .foreach(id => write(context, versions, log, version, StateVersion(version.number, id)))
      }
      .getOrElse(())

  private def write(
      context: StoreContext,
      versions: StoreVersions,
      log: StateLog,
      version: StateLog.Version,
      target: StateVersion
  ): Unit = {
    val file = context.files.create(target, FrameKind.Base)
    try {
      val keys = version.parts.map(part => part.family.schema.id -> part.mark.keys).toMap
      val frame = context.frame(FrameKind.Base, target, None, version.schemas, keys, file)
      log.writeBase(version, frame)
      // Maintenance and a forced snapshot may both write this base; both write the same bytes.
      try file.commit()
      catch { case _: FileAlreadyExistsException => file.cancel() }
      versions.baseWritten(target.number, frame.sizeBytes)
      context.metrics.baseBytes.addAndGet(frame.sizeBytes)
      context.metrics.basesWritten.incrementAndGet()
      context.reportBase(target.number)
    } catch {
      case e: Throwable =>
        file.cancel()
        throw e
    }
  }
}
