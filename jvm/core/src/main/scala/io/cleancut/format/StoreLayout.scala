package io.cleancut.format

import java.nio.charset.StandardCharsets.UTF_8

import io.cleancut.base.{StateVersion, StoreId}

/** Builds and parses the names of per-store files, relative to the root. */
object StoreLayout {
  import NameDigits.padded

  /** Directory of all files of Cleancut, below a query's checkpoint location. */
  val RootName: String = "cleancut"

  val FormatObject: String = "format.json"

  val Stores: String = "stores/"

  private val Temporary = """\.(\d{20})-[0-9a-f]{32}\.(?:delta|base)\..*tmp""".r
  private val Name = """(\d{20})-([0-9a-f]{32})\.(delta|base)""".r

  /** `stores/<operator>`, which has a directory for each partition. */
  def operatorDirectory(operator: Long): String = s"$Stores$operator"

  /** `stores/<operator>/<partition>/<store>`. */
  def storeDirectory(store: StoreId): String =
    s"${operatorDirectory(store.operator)}/${store.partition}/${escape(store.name)}"

  def objectName(version: StateVersion, kind: FrameKind): String =
    s"${padded(version.number)}-${version.id}.${kind.extension}"

  /** The version and kind of a name in a store's directory; None for foreign files. */
  def parseObjectName(name: String): Option[(StateVersion, FrameKind)] = name match {
    case Name(number, id, extension) =>
      number.toLongOption.filter(_ > 0).map { n =>
        (StateVersion(n, id), FrameKind.all.find(_.extension == extension).get)
      }
    case _ => None
  }

  /**
   * The version number of a frame's temporary file. Spark's file managers put a dot before the
   * final name, and a unique suffix after it.
   */
  def parseTemporaryName(name: String): Option[Long] = name match {
    case Temporary(number) => number.toLongOption.filter(_ > 0)
    case _                 => None
  }

  private def escape(name: String): String = name
    .getBytes(UTF_8)
    .map { b =>
      val c = (b & 0xff).toChar
      val isPlain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')
      if (isPlain || c == '_' || c == '-') c.toString else f"%%${b & 0xff}%02X"
    }
    .mkString
}
