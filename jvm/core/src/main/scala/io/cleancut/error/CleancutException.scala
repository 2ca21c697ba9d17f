package io.cleancut.error

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

/**
 * The only exception class of Cleancut's JVM code. Only the factories of [[Errors]] create it.
 *
 * Python recognizes it by [[getErrorId]] in the cause chain, never by its text. Parameters are
 * strings, so that it can always be serialized from an executor to the driver.
 *
 * @param errorId
 *   the key of the error class in `error/cleancut-error-classes.json`
 * @param params
 *   values by name, in the order of the message
 */
final class CleancutException private[error] (
    val errorId: String,
    val kind: ErrorKind,
    val params: Seq[(String, String)],
    message: String,
    cause: Throwable
) extends RuntimeException(message, cause) {

  /** First line of the message: what happened. */
  def summary: String = getMessage.linesIterator.next()

  def getErrorId: String = errorId

  def getKind: String = kind.name

  def getSqlState: String = ErrorCatalog.classes(errorId).sqlState

  /** URL of the error class in the documentation. */
  def getUrl: String = ErrorCatalog.classes(errorId).url

  def getParams: JMap[String, String] = {
    val copy = new JLinkedHashMap[String, String]
    params.foreach { case (name, value) => copy.put(name, value) }
    copy
  }
}
