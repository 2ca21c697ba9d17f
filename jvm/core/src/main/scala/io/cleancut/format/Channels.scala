package io.cleancut.format

import io.cleancut.base.StoreId

/**
 * A channel is what lies between an exchange and the stateful operator behind it. The rows in it
 * that an epoch has not handed on are kept like the state of a store, under a name of their own.
 */
object Channels {
  private val Prefix = "cleancut-channel-"

  /**
   * @param input
   *   which of the operator's inputs it is, from 0; a join has two
   */
  def name(input: Int): String = s"$Prefix$input"

  def isChannel(store: StoreId): Boolean = store.name.startsWith(Prefix)
}
