package org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker

import java.lang.invoke.VarHandle
import java.nio.{ByteOrder, LongBuffer}
import java.nio.channels.FileChannel
import java.nio.channels.FileChannel.MapMode
import java.nio.file.{Files, Path, Paths}
import java.nio.file.StandardOpenOption._

import org.apache.spark.SparkEnv

/** The shared state of a task and its Python worker. */
private[cleancut] trait WorkerShare {

  /** Rows that the function has received, from the first; the value may lag. */
  def taken: Long

  /**
   * After the end of the worker: number of rows before the first that the function has not
   * received.
   */
  def skipped: Option[Long]

  /**
   * Sets once that the function receives the first `stop` rows and those after the first `resume`,
   * whether the task is overtaken or not. Of the rows in between, the worker may discard the last
   * ones.
   */
  def decide(stop: Long, resume: Long): Unit
}

/**
 * Memory that a task shares with its Python worker, through a file in a local directory of the
 * executor. `worker/recall.py` defines its layout. Any thread may call [[overtake]]; other methods
 * are for the task thread.
 */
final private[cleancut] class WorkerPage(attempt: Long, splitsGroups: Boolean) extends WorkerShare {
  import WorkerPage._

  private val file: Path = fileOf(attempt)
  private val numbers: LongBuffer = {
    val channel = FileChannel.open(file, CREATE, READ, WRITE)
    try
      channel.map(MapMode.READ_WRITE, 0, SizeBytes).order(ByteOrder.nativeOrder()).asLongBuffer()
    finally channel.close()
  }
  write(Skipped, -1)
  if (!splitsGroups) write(Whole, 1)

  def overtake(): Unit = write(Overtaken, 1)

  override def taken: Long = read(Taken)

  override def skipped: Option[Long] = Some(read(Skipped)).filter(_ >= 0)

  override def decide(stop: Long, resume: Long): Unit = {
    write(Stop, stop)
    write(Resume, resume)
    write(Decided, 1)
  }

  /** The worker may still have the file open; the memory is freed with the last mapping. */
  def close(): Unit = {
    Files.deleteIfExists(file)
    ()
  }

  private def read(field: Int): Long = {
    VarHandle.fullFence()
    numbers.get(field)
  }

  // The worker must see earlier writes once it sees this one.
  private def write(field: Int, value: Long): Unit = {
    VarHandle.fullFence()
    numbers.put(field, value)
    VarHandle.fullFence()
  }
}

private[cleancut] object WorkerPage {
  private val SizeBytes = 4096L
  private val Overtaken = 0
  private val Decided = 1
  private val Stop = 2
  private val Resume = 3
  private val Taken = 5
  private val Skipped = 6
  private val Whole = 7

  /** The file that the worker opens: Spark passes the directories of the executor to workers. */
  private def fileOf(attempt: Long): Path = {
    val directory = SparkEnv.get.blockManager.diskBlockManager.localDirs.head
    Paths.get(directory.getPath, s"cleancut-recall-$attempt")
  }
}
