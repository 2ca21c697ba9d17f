package org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker

import java.io.ByteArrayOutputStream
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.CRC32

import scala.util.Using

/**
 * Wraps the function in the command of a Python operator with the modules in `worker/`. A command
 * is a pickle, which is a program: this one creates the modules in the worker and calls `load` of
 * `worker/load.py` with the original command. So an executor's Python requires no additional
 * package.
 */
private[cleancut] object WorkerCommand {

  /** How PySpark calls the function; see `load` in the text. */
  sealed abstract class Kind(val name: String)
  case object Groups extends Kind("groups")
  case object Frames extends Kind("frames")
  case object Rows extends Kind("rows")

  private val modules: Seq[(String, String)] =
    Seq(
      "modules",
      "recall",
      "state_clients",
      "state_batches",
      "pyspark_code",
      "group_frames",
      "group_loop",
      "loops_4_3",
      "loops_4_2",
      "loops_4_1",
      "loops_4_0",
      "serializer_loops",
      "load"
    ).map { name =>
      name -> Using.resource(getClass.getResourceAsStream(s"/worker/$name.py"))(in =>
        new String(in.readAllBytes(), UTF_8)
      )
    }

  // A worker that runs many tasks compiles the texts once.
  private val packageName: String = {
    val sum = new CRC32
    modules.foreach { case (_, text) => sum.update(text.getBytes(UTF_8)) }
    f"cleancut_worker_${sum.getValue}%08x"
  }

  private val Loader =
    "lambda name, texts, *args: (name in __import__('sys').modules or (lambda scope:" +
      " (exec(texts[0][1], scope), scope['install'](name, dict(texts[1:]))))({})," +
      " __import__(name + '.load', fromlist=['load']).load(*args))[1]"

  def around(command: Array[Byte], kind: Kind, isAccelerated: Boolean): Array[Byte] = {
    val out = new ByteArrayOutputStream(command.length + modules.map(_._2.length).sum + 4096)
    out.write(Array(0x80.toByte, 3.toByte)) // protocol 3
    out.write("cbuiltins\neval\n".getBytes(UTF_8))
    string(out, Loader)
    out.write(Array(0x85.toByte, 'R'.toByte)) // a tuple of one; call
    out.write('(')
    string(out, packageName)
    out.write('(')
    modules.foreach { case (name, text) =>
      string(out, name)
      string(out, text)
      out.write(0x86) // a tuple of two
    }
    out.write('t') // a tuple of all since the bracket
    sized(out, 'B', command)
    string(out, kind.name)
    out.write(if (isAccelerated) 0x88 else 0x89) // True or False
    out.write("tR.".getBytes(UTF_8)) // a tuple of all since the bracket; call; end
    out.toByteArray
  }

  private def string(out: ByteArrayOutputStream, value: String): Unit =
    sized(out, 'X', value.getBytes(UTF_8))

  private def sized(out: ByteArrayOutputStream, code: Char, bytes: Array[Byte]): Unit = {
    out.write(code.toInt)
    out.write(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(bytes.length).array)
    out.write(bytes)
  }
}
