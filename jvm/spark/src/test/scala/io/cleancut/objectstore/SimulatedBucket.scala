package io.cleancut.objectstore

import scala.collection.mutable

/** Receives changes of the objects of a bucket before they take effect. */
trait BucketWatch {
  def written(name: String, body: Array[Byte], replaced: Option[Array[Byte]]): Unit
  def deleted(name: String): Unit
}

/**
 * The objects of a bucket in memory, with the semantics of S3: each request is one step.
 *
 * @param honoursCondition
 *   whether conditional writes of a name observe their condition
 */
final class SimulatedBucket(watch: BucketWatch, honoursCondition: String => Boolean) {
  private val objects = mutable.TreeMap.empty[String, SimulatedBucket.Stored]

  def put(name: String, body: Array[Byte], token: Option[String], nowMs: Long): Unit = {
    watch.written(name, body, objects.get(name).map(_.body))
    objects(name) = SimulatedBucket.Stored(body, token, nowMs)
  }

  /** Writes an object unless it exists; returns whether it was written. */
  def putIfAbsent(name: String, body: Array[Byte], token: String, nowMs: Long): Boolean = {
    val isFree = !honoursCondition(name) || !objects.contains(name)
    if (isFree) put(name, body, Some(token), nowMs)
    isFree
  }

  def get(name: String): Option[SimulatedBucket.Stored] = objects.get(name)

  /** The next names after one, in order. */
  def page(prefix: String, after: String, size: Int): Seq[(String, SimulatedBucket.Stored)] = {
    val first = if (after > prefix) after else prefix
    val following = objects.iteratorFrom(first).filter { case (name, _) => name != after }
    following.takeWhile { case (name, _) => name.startsWith(prefix) }.take(size).toSeq
  }

  def delete(name: String): Unit = if (objects.contains(name)) {
    watch.deleted(name)
    objects -= name
  }

  def names: Seq[String] = objects.keys.toSeq
}

object SimulatedBucket {
  final case class Stored(body: Array[Byte], token: Option[String], modifiedMs: Long)
}
