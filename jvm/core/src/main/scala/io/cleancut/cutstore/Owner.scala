package io.cleancut.cutstore

import java.time.Instant

import com.fasterxml.jackson.databind.ObjectMapper

/** A run that has taken the ownership of its query, by its note. */
final case class Owner(generation: Long, runId: String, host: String, startedMs: Long) {
  override def toString: String =
    s"run $runId on $host, generation $generation, since ${Instant.ofEpochMilli(startedMs)}"
}

object Owner {
  private val mapper = new ObjectMapper
  private val SoonMs = 600_000L

  /** How many notes show that the ownership goes back and forth. */
  val Notes: Int = 5

  def parse(note: Array[Byte]): Owner = {
    val json = mapper.readTree(note)
    Owner(
      json.path("generation").asLong,
      json.path("runId").asText,
      json.path("host").asText,
      json.path("startedMs").asLong
    )
  }

  /**
   * What to say of two drivers that are both started again and again, each of which takes the query
   * from the other.
   *
   * @param latest
   *   owners one behind the other, the last one first
   */
  def rivalry(latest: Seq[Owner]): Option[String] = {
    val of = latest.take(Notes)
    def areOn(host: String, parity: Int) =
      of.indices.filter(_ % 2 == parity).forall(of(_).host == host)
    val isBackAndForth = of.size == Notes && of(0).host != of(1).host &&
      areOn(of(0).host, parity = 0) && areOn(of(1).host, parity = 1) &&
      of.head.startedMs - of.last.startedMs <= SoonMs
    Option.when(isBackAndForth) {
      s"drivers on ${of(0).host} and ${of(1).host} have taken the query from each other " +
        s"${Notes - 1} times since ${Instant.ofEpochMilli(of.last.startedMs)}: both are started " +
        "again whenever they end, so stop one of the two deployments"
    }
  }
}
