package io.cleancut.format

import io.cleancut.base.StoreId

/**
 * Names of shuffle inputs. The in-flight rows of a shuffle input, which is between an exchange and
 * its stateful operator, are stored like the state of a store, under a separate name.
 */
object Channels {
  private val Prefix = "cleancut-channel-"

  /**
   * @param input
   *   index of the operator's input, from 0; a join has two
   */
  def name(input: Int): String = s"$Prefix$input"

  def isChannel(store: StoreId): Boolean = store.name.startsWith(Prefix)
}
