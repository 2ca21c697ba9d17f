package io.cleancut.testing

import java.nio.file.{Files, Path, StandardOpenOption}
import java.util.concurrent.{TimeoutException, TimeUnit}

import io.cleancut.base.Clock

/**
 * The point in a task at which `cleancut.testing.Block` blocks it: a static method, which SQL calls
 * with `reflect`. A block is two empty files in a directory that all processes share.
 */
object BlockedRow {
  private val PollMs = 5L

  /**
   * Reports that it is reached, and waits until the block is released.
   *
   * @param directory
   *   existing directory of the block
   * @return
   *   an empty text
   * @throws java.util.concurrent.TimeoutException
   *   if it was not released in time
   */
  def await(directory: String, timeoutMs: Long): String = await(directory, timeoutMs, Clock.System)

  private[testing] def await(directory: String, timeoutMs: Long, clock: Clock): String = {
    val block = Path.of(directory)
    val deadlineNs = clock.monotonicNs() + TimeUnit.MILLISECONDS.toNanos(timeoutMs)
    // Another task may be blocked here already.
    Files
      .newByteChannel(
        block.resolve("reached"),
        StandardOpenOption.CREATE,
        StandardOpenOption.WRITE
      )
      .close()
    while (Files.notExists(block.resolve("released"))) {
      if (clock.monotonicNs() > deadlineNs)
        throw new TimeoutException(s"The block $directory was not released in $timeoutMs ms.")
      clock.sleep(PollMs, TimeUnit.MILLISECONDS)
    }
    ""
  }
}
