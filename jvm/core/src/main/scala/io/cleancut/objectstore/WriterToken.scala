package io.cleancut.objectstore

import io.cleancut.base.{Clock, StateVersion}

/**
 * Whose write an object is. It is stored with the object, so that a writer whose answer was lost
 * can tell its own object from another's. One token belongs to one body: who writes other bytes
 * takes another.
 */
final case class WriterToken(text: String) {
  require(WriterToken.isToken(text), s"not a token: '$text'")
  override def toString: String = text
}

object WriterToken {
  private val Text = "[A-Za-z0-9-]{1,64}".r

  def isToken(text: String): Boolean = Text.matches(text)

  /** One that no other writer has. */
  def fresh(clock: Clock): WriterToken = WriterToken(StateVersion.newId(clock))
}
