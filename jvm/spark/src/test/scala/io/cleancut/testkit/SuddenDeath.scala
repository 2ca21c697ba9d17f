package io.cleancut.testkit

/** Kills this process by SIGKILL: no hook runs, and nothing is flushed. */
object SuddenDeath {

  def die(): Nothing = {
    val pid = ProcessHandle.current.pid.toString
    new ProcessBuilder("kill", "-KILL", pid).inheritIO().start().waitFor()
    throw new IllegalStateException(s"process $pid is still alive")
  }
}
