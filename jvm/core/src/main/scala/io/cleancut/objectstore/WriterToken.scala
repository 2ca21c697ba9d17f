package io.cleancut.objectstore

import io.cleancut.base.{Clock, StateVersion}

/**
 * Identifies the writer of an object. It is stored with the object, so that a writer whose response
 * was lost recognizes its own object. A token belongs to one body; a writer of other bytes uses
 * another token.
 */
final case class WriterToken(text: String) {
  require(WriterToken.isToken(text), s"not a token: '$text'")
  override def toString: String = text
}

object WriterToken {
  private val Text = "[A-Za-z0-9-]{1,64}".r

  def isToken(text: String): Boolean = Text.matches(text)

  /** A token that no other writer has. */
  def fresh(clock: Clock): WriterToken = WriterToken(StateVersion.newId(clock))
}
