package io.cleancut.base

import java.util.concurrent._

/** Threads that do not keep a process alive. */
object DaemonThreads {
  def named(name: String): ThreadFactory = body => {
    val thread = new Thread(body, name)
    thread.setDaemon(true)
    thread
  }

  /** A pool with at most `max` threads, and none without work. */
  def pool(name: String, max: Int): ExecutorService = {
    val threads = new ThreadPoolExecutor(
      max,
      max,
      IdleS,
      TimeUnit.SECONDS,
      new LinkedBlockingQueue[Runnable],
      named(name)
    )
    threads.allowCoreThreadTimeOut(true)
    threads
  }

  private val IdleS = 10L
}
