package io.cleancut.suites

import scala.util.Using

import org.apache.xbean.asm9.commons.{ClassRemapper, Remapper}
import org.apache.xbean.asm9.{ClassReader, ClassWriter, Opcodes}
import org.scalatest.Suite

import io.cleancut.CleancutStateStoreProvider

/**
 * Loads suites that create RocksDB's provider in private methods. References to that provider's
 * class, and its name in expected messages, are replaced by this provider. Its internals are not
 * available.
 */
object InPlaceOfRocksDb {
  private val State = "org.apache.spark.sql.execution.streaming.state"

  def load(suite: String): Class[_ <: Suite] =
    new Loader(s"$State.$suite").loadClass(s"$State.$suite").asSubclass(classOf[Suite])

  private val theirs = s"$State.RocksDBStateStoreProvider"
  private val simpleName = theirs.split('.').last
  private val ours = classOf[CleancutStateStoreProvider]

  private val renamed = new Remapper(Opcodes.ASM9) {
    override def map(name: String): String =
      if (name == internalName(theirs)) internalName(ours.getName) else name

    override def mapValue(constant: AnyRef): AnyRef = constant match {
      case text: String =>
        text.replace(theirs, ours.getName).replace(simpleName, ours.getSimpleName)
      case other => super.mapValue(other)
    }
  }

  private def internalName(name: String): String = name.replace('.', '/')

  /** Loads the class and its nested classes itself, and all other classes through its parent. */
  final private class Loader(suite: String)
      extends ClassLoader(classOf[CleancutStateStoreProvider].getClassLoader) {

    override def loadClass(name: String, resolve: Boolean): Class[_] =
      if (name != suite && !name.startsWith(s"$suite$$")) super.loadClass(name, resolve)
      else
        getClassLoadingLock(name).synchronized {
          Option(findLoadedClass(name)).getOrElse(define(name))
        }

    private def define(name: String): Class[_] = {
      val bytes =
        Using.resource(getParent.getResourceAsStream(s"${internalName(name)}.class")) { original =>
          val writer = new ClassWriter(0)
          new ClassReader(original).accept(new ClassRemapper(writer, renamed), 0)
          writer.toByteArray
        }
      defineClass(name, bytes, 0, bytes.length)
    }
  }
}
