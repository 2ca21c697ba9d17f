package io.cleancut.s3a

/**
 * What a million requests cost in US dollars, as `python/cleancut/_checkpoint/read/prices.py` has
 * it.
 */
final case class Prices(store: String, classA: Double, classB: Double) {

  /** US dollars a day, if each epoch has so many requests. */
  def aDay(requests: Requests, epochs: Int): Double =
    (requests.classA * classA + requests.classB * classB) / 1e6 * epochs
}

object Prices {
  val All: Seq[Prices] = Seq(
    Prices("AWS S3 Standard, us-east-1", 5.00, 0.40),
    Prices("Cloudflare R2 Standard", 4.50, 0.36)
  )
}
