package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.internal.SQLConf

import io.cleancut.conf.Keys

/**
 * How the store of a location is reached, and as whom. An act may work on two places at once, each
 * with another access: whatever a configuration says of it, this is what counts.
 *
 * @param settings
 *   by the names of their keys; None where nothing is set
 */
final private[operations] case class PlaceAccess(settings: Map[String, Option[String]]) {

  /** The same configuration with this access. */
  def in(conf: Configuration): Configuration = {
    val own = new Configuration(conf)
    settings.foreach { case (name, value) => value.fold(own.unset(name))(own.set(name, _)) }
    own
  }

  def setIn(conf: SQLConf): Unit = settings.foreach { case (name, value) =>
    value.fold(conf.unsetConf(name))(conf.setConfString(name, _))
  }

  /** For messages: it names a profile, and no secret. */
  override def toString: String =
    settings.toSeq.sorted.collect { case (name, Some(value)) => s"$name=$value" }.mkString(", ")
}

private[operations] object PlaceAccess {
  private val names = Keys.ofAccess.map(_.name)

  def of(conf: SQLConf): PlaceAccess =
    PlaceAccess(names.map(name => name -> Option(conf.getConfString(name, null))).toMap)

  /** Of what is said alone: what says where one store is is of no use for another one. */
  def only(said: Map[String, String]): PlaceAccess =
    PlaceAccess(names.map(_ -> None).toMap ++ said.view.mapValues(Some(_)))
}
