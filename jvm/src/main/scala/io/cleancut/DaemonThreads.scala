package io.cleancut

import java.util.concurrent.ThreadFactory

/** Threads that do not keep a process alive. */
object DaemonThreads {
  def named(name: String): ThreadFactory = body => {
    val thread = new Thread(body, name)
    thread.setDaemon(true)
    thread
  }
}
