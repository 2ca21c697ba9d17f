package org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker

import java.io.ByteArrayOutputStream
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.CRC32

import scala.util.Using

/**
 * Wraps the function in the command of a Python operator with `worker/recall.py`. A command is a
 * pickle, which is a program: this one calls `load` of that text with the original command. So an
 * executor's Python requires no additional package.
 */
private[cleancut] object WorkerCommand {

  /** How PySpark calls the function; see `Recall` in the text. */
  sealed abstract class Kind(val name: String)
  case object Groups extends Kind("groups")
  case object Frames extends Kind("frames")
  case object Rows extends Kind("rows")

  private val text: String =
    Using.resource(getClass.getResourceAsStream("/worker/recall.py"))(in =>
      new String(in.readAllBytes(), UTF_8)
    )

  // A worker that runs many tasks compiles the text once.
  private val module: String = {
    val sum = new CRC32
    sum.update(text.getBytes(UTF_8))
    f"cleancut_recall_${sum.getValue}%08x"
  }

  private val Loader =
    "lambda name, text, command, kind, sys=__import__('sys'), new=__import__('types').ModuleType:" +
      " (sys.modules.get(name) or (lambda made: (exec(text, made.__dict__)," +
      " sys.modules.__setitem__(name, made), made)[2])(new(name))).load(command, kind)"

  def around(command: Array[Byte], kind: Kind): Array[Byte] = {
    val out = new ByteArrayOutputStream(command.length + text.length + 1024)
    out.write(Array(0x80.toByte, 3.toByte)) // protocol 3
    out.write("cbuiltins\neval\n".getBytes(UTF_8))
    string(out, Loader)
    out.write(Array(0x85.toByte, 'R'.toByte)) // a tuple of one; call
    out.write('(')
    string(out, module)
    string(out, text)
    sized(out, 'B', command)
    string(out, kind.name)
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
