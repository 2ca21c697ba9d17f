package io.cleancut.testkit

import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.xbean.asm9.{ClassReader, Handle, Opcodes}
import org.apache.xbean.asm9.tree._

/**
 * Which classes are initialised while others are: by the code of their initialisers, and of the
 * methods of these classes that it calls by name, or makes functions of. A method that a subclass
 * overrides is not found.
 *
 * @param classes
 *   that are looked at; others are taken to initialise none of them
 */
final class Initialisation(classes: Iterable[ClassNode]) {
  import Initialisation._

  private val byName = classes.map(of => of.name -> of).toMap

  def count: Int = byName.size

  /** The sets of classes each of which initialises all others of its set. */
  def circles: Seq[Set[String]] = {
    val started = byName.keys.map(name => name -> startedBy(name)).toMap
    val reached = started.keys.map(name => name -> closure(started(name))(started)).toMap
    reached.keys.toSeq
      .map(name => reached(name).filter(reached(_)(name)) + name)
      .filter(_.size > 1)
      .distinct
      .sortBy(_.min)
  }

  /** The classes whose initialisation that of a class asks for, by itself. */
  private def startedBy(name: String): Set[String] = {
    val found = mutable.Set.from(lineage(name))
    val seen = mutable.Set.empty[Method]
    def follow(method: Method): Unit = if (seen.add(method)) {
      for {
        (owner, code) <- codeOf(method)
        _ = found ++= lineage(owner)
        instruction <- code.instructions.asScala
      } instruction match {
        case field: FieldInsnNode if isStatic(field)             => found ++= lineage(field.owner)
        case made: TypeInsnNode if made.getOpcode == Opcodes.NEW => found ++= lineage(made.desc)
        case call: MethodInsnNode                                =>
          if (call.getOpcode == Opcodes.INVOKESTATIC) found ++= lineage(call.owner)
          follow(Method(call.owner, call.name, call.desc))
        case function: InvokeDynamicInsnNode =>
          function.bsmArgs.collect { case of: Handle =>
            follow(Method(of.getOwner, of.getName, of.getDesc))
          }
        case _ => ()
      }
    }
    follow(Method(name, "<clinit>", "()V"))
    found.toSet - name
  }

  /** A class and those that it extends, which are initialised before it. */
  private def lineage(name: String): Seq[String] =
    byName.get(name).toSeq.flatMap(of => name +: lineage(of.superName))

  private def codeOf(method: Method): Option[(String, MethodNode)] =
    byName.get(method.owner).flatMap { of =>
      val own = of.methods.asScala.find(m => m.name == method.name && m.desc == method.desc)
      def inherited = codeOf(method.copy(owner = of.superName))
      own.map(of.name -> _).orElse(if (method.name.startsWith("<")) None else inherited)
    }

  private def isStatic(field: FieldInsnNode) =
    field.getOpcode == Opcodes.GETSTATIC || field.getOpcode == Opcodes.PUTSTATIC
}

object Initialisation {
  final private case class Method(owner: String, name: String, desc: String)

  /** Of the class files below a directory. */
  def below(directory: Path): Initialisation = Using.resource(Files.walk(directory)) { files =>
    val found = files.iterator.asScala.filter(_.toString.endsWith(".class"))
    new Initialisation(found.map(file => parse(Files.readAllBytes(file))).toSeq)
  }

  def of(classes: Class[_]*): Initialisation = new Initialisation(classes.map { of =>
    val file = s"/${of.getName.replace('.', '/')}.class"
    Using.resource(of.getResourceAsStream(file))(in => parse(in.readAllBytes()))
  })

  private def parse(bytes: Array[Byte]): ClassNode = {
    val node = new ClassNode
    new ClassReader(bytes).accept(node, ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES)
    node
  }

  private def closure(from: Set[String])(next: String => Set[String]): Set[String] = {
    val found = mutable.Set.empty[String]
    def add(name: String): Unit = if (found.add(name)) next(name).foreach(add)
    from.foreach(add)
    found.toSet
  }
}
