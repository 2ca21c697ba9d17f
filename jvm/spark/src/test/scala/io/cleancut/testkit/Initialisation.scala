package io.cleancut.testkit

import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.xbean.asm9.{ClassReader, Handle, Opcodes}
import org.apache.xbean.asm9.tree._

/**
 * The classes that are initialised during the initialisation of other classes, by the code of
 * static initialisers and of the methods that these call or reference. Methods that a subclass
 * overrides are not included.
 *
 * @param classes
 *   analyzed classes; other classes are assumed to initialise none of them
 */
final class Initialisation(classes: Iterable[ClassNode]) {
  import Initialisation._

  private val byName = classes.map(node => node.name -> node).toMap

  def count: Int = byName.size

  /** Sets of classes, each of which initialises all others of its set. */
  def circles: Seq[Set[String]] = {
    val started = byName.keys.map(name => name -> startedBy(name)).toMap
    val reached = started.keys.map(name => name -> closure(started(name))(started)).toMap
    reached.keys.toSeq
      .map(name => reached(name).filter(reached(_)(name)) + name)
      .filter(_.size > 1)
      .distinct
      .sortBy(_.min)
  }

  /** The classes that the initialisation of a class initialises directly. */
  private def startedBy(name: String): Set[String] = {
    val initialised = mutable.Set.from(lineage(name))
    val seen = mutable.Set.empty[Method]
    def follow(method: Method): Unit = if (seen.add(method)) {
      for {
        (owner, code) <- codeOf(method)
        _ = initialised ++= lineage(owner)
        instruction <- code.instructions.asScala
      } instruction match {
        case field: FieldInsnNode if isStatic(field) => initialised ++= lineage(field.owner)
        case made: TypeInsnNode if made.getOpcode == Opcodes.NEW =>
          initialised ++= lineage(made.desc)
        case call: MethodInsnNode =>
          if (call.getOpcode == Opcodes.INVOKESTATIC) initialised ++= lineage(call.owner)
          follow(Method(call.owner, call.name, call.desc))
        case function: InvokeDynamicInsnNode =>
          function.bsmArgs.collect { case handle: Handle =>
            follow(Method(handle.getOwner, handle.getName, handle.getDesc))
          }
        case _ => ()
      }
    }
    follow(Method(name, "<clinit>", "()V"))
    initialised.toSet - name
  }

  /** A class and its superclasses, which are initialised before it. */
  private def lineage(name: String): Seq[String] =
    byName.get(name).toSeq.flatMap(node => name +: lineage(node.superName))

  private def codeOf(method: Method): Option[(String, MethodNode)] =
    byName.get(method.owner).flatMap { node =>
      val declared = node.methods.asScala.find(m => m.name == method.name && m.desc == method.desc)
      def inherited = codeOf(method.copy(owner = node.superName))
      declared.map(node.name -> _).orElse(if (method.name.startsWith("<")) None else inherited)
    }

  private def isStatic(field: FieldInsnNode) =
    field.getOpcode == Opcodes.GETSTATIC || field.getOpcode == Opcodes.PUTSTATIC
}

object Initialisation {
  final private case class Method(owner: String, name: String, desc: String)

  /** Analyzes the class files below a directory. */
  def below(directory: Path): Initialisation = Using.resource(Files.walk(directory)) { files =>
    val classFiles = files.iterator.asScala.filter(_.toString.endsWith(".class"))
    new Initialisation(classFiles.map(file => parse(Files.readAllBytes(file))).toSeq)
  }

  def of(classes: Class[_]*): Initialisation = new Initialisation(classes.map { one =>
    val file = s"/${one.getName.replace('.', '/')}.class"
    Using.resource(one.getResourceAsStream(file))(in => parse(in.readAllBytes()))
  })

  private def parse(bytes: Array[Byte]): ClassNode = {
    val node = new ClassNode
    new ClassReader(bytes).accept(node, ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES)
    node
  }

  private def closure(from: Set[String])(next: String => Set[String]): Set[String] = {
    val reached = mutable.Set.empty[String]
    def add(name: String): Unit = if (reached.add(name)) next(name).foreach(add)
    from.foreach(add)
    reached.toSet
  }
}
