package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.internal.SQLConf

import io.cleancut.conf.Keys

/**
 * Access settings of a location's object store. An operation may work on two locations at the same
 * time, each with other settings. These settings override any configuration.
 *
 * @param settings
 *   values by key; None if a key is not set
 */
final private[operations] case class PlaceAccess(settings: Map[String, Option[String]]) {

  /** The same configuration with these settings. */
  def in(conf: Configuration): Configuration = {
    val result = new Configuration(conf)
    settings.foreach { case (name, value) => value.fold(result.unset(name))(result.set(name, _)) }
    result
  }

  def setIn(conf: SQLConf): Unit = settings.foreach { case (name, value) =>
    value.fold(conf.unsetConf(name))(conf.setConfString(name, _))
  }

  /** Text for messages: it names a profile, and no secret. */
  override def toString: String =
    settings.toSeq.sorted.collect { case (name, Some(value)) => s"$name=$value" }.mkString(", ")
}

private[operations] object PlaceAccess {
  private val names = Keys.ofAccess.map(_.name)

  def of(conf: SQLConf): PlaceAccess =
    PlaceAccess(names.map(name => name -> Option(conf.getConfString(name, null))).toMap)

  /** Only the given settings: settings of one store do not apply to another one. */
  def only(said: Map[String, String]): PlaceAccess =
    PlaceAccess(names.map(_ -> None).toMap ++ said.view.mapValues(Some(_)))
}
