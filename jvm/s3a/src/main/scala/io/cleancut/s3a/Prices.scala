package io.cleancut.s3a

/**
 * Prices of a million requests in US dollars, the same as in
 * `python/cleancut/_checkpoint/read/prices.py`.
 */
final case class Prices(store: String, classA: Double, classB: Double) {

  /** US dollars per day for a number of epochs with these requests. */
  def aDay(requests: Requests, epochs: Int): Double =
    (requests.classA * classA + requests.classB * classB) / 1e6 * epochs
}

object Prices {
  val All: Seq[Prices] = Seq(
    Prices("AWS S3 Standard, us-east-1", 5.00, 0.40),
    Prices("Cloudflare R2 Standard", 4.50, 0.36)
  )
}
