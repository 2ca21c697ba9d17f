package io.cleancut.history

import io.cleancut.format.cut.ShareCosts
import io.cleancut.objectstore.RequestKind
import io.cleancut.objectstore.RequestKind.Billing

/** Costs of requests and bytes at S3 Standard in us-east-1, in US dollars. */
object StorePrices {
  // The same as PRICES in cleancut/_checkpoint/read/prices.py, which a test compares.
  private val ClassAPerMillion = 5.00
  private val ClassBPerMillion = 0.40
  private val GbMonth = 0.023

  // The same as there.
  private val Gb = 1e9
  private val MonthDays = 30

  private val billing = RequestKind.values.map(kind => kind.name -> kind.billing).toMap

  /** Unknown kinds of a later release count as the most expensive one. */
  def of(share: ShareCosts): Double = share.requests.map { case (kind, count) =>
    billing.getOrElse(kind, Billing.ClassA) match {
      case Billing.ClassA => count.requests * ClassAPerMillion / 1e6
      case Billing.ClassB => count.requests * ClassBPerMillion / 1e6
      case Billing.Free   => 0.0
    }
  }.sum

  /** Storage costs per day. */
  def storedADay(bytes: Long): Double = bytes / Gb * GbMonth / MonthDays
}
