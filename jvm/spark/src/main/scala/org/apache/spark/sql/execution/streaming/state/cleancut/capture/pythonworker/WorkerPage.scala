package org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker

import java.lang.invoke.VarHandle
import java.nio.{ByteOrder, LongBuffer}
import java.nio.channels.FileChannel
import java.nio.channels.FileChannel.MapMode
import java.nio.file.{Files, Path, Paths}
import java.nio.file.StandardOpenOption._

import org.apache.spark.SparkEnv

/** What a task learns of the Python worker that it feeds, and tells it. */
private[cleancut] trait WorkerShare {

  /** Rows that the function has been given, from the first; it may be behind. */
  def taken: Long

  /**
   * Once the worker is done: number of rows before the first that the function has not been given.
   */
  def skipped: Option[Long]

  /**
   * Once and for all: the function sees the first `stop` rows and those behind the first `resume`,
   * whether the task is overtaken or not. Of those between, the worker may leave the last ones.
   */
  def decide(stop: Long, resume: Long): Unit
}

/**
 * Memory that a task shares with its Python worker, by a file in a local directory of the executor.
 * Its layout stands in `worker/recall.py`. Any thread may raise [[overtake]]; the rest is for the
 * thread of the task.
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

  /** The worker may have it open still; the memory goes with the last that has. */
  def close(): Unit = {
    Files.deleteIfExists(file)
    ()
  }

  private def read(field: Int): Long = {
    VarHandle.fullFence()
    numbers.get(field)
  }

  // The worker must find what was written before, once it finds this.
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

  /** Where the worker looks for it: Spark tells workers the directories of their executor. */
  private def fileOf(attempt: Long): Path = {
    val directory = SparkEnv.get.blockManager.diskBlockManager.localDirs.head
    Paths.get(directory.getPath, s"cleancut-recall-$attempt")
  }
}
