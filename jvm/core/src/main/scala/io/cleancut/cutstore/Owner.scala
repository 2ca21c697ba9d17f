package io.cleancut.cutstore

import java.time.Instant

import com.fasterxml.jackson.databind.ObjectMapper

/**
 * A run that has taken ownership of its query, from its owner object.
 *
 * @param waitsFor
 *   the generation whose end the run waits for, if it lets that run finish its epoch
 * @param address
 *   `host:port` at which the driver accepts connections until it ends
 */
final case class Owner(
    generation: Long,
    runId: String,
    host: String,
    startedMs: Long,
    waitsFor: Option[Long] = None,
    address: Option[String] = None
) {
  override def toString: String =
    s"run $runId on $host, generation $generation, since ${Instant.ofEpochMilli(startedMs)}"
}

object Owner {
  private val mapper = new ObjectMapper
  private val SoonMs = 600_000L

  /** Number of owner objects that show repeated takeovers. */
  val Notes: Int = 5

  def parse(note: Array[Byte]): Owner = {
    val json = mapper.readTree(note)
    Owner(
      json.path("generation").asLong,
      json.path("runId").asText,
      json.path("host").asText,
      json.path("startedMs").asLong,
      Option(json.get("waitsFor")).map(_.asLong),
      Option(json.get("address")).map(_.asText)
    )
  }

  /**
   * A message about two drivers that are repeatedly restarted and take the query from each other.
   *
   * @param latest
   *   consecutive owners, the last one first
   */
  def rivalry(latest: Seq[Owner]): Option[String] = {
    val recent = latest.take(Notes)
    def areOn(host: String, parity: Int) =
      recent.indices.filter(_ % 2 == parity).forall(recent(_).host == host)
    val isBackAndForth = recent.size == Notes && recent(0).host != recent(1).host &&
      areOn(recent(0).host, parity = 0) && areOn(recent(1).host, parity = 1) &&
      recent.head.startedMs - recent.last.startedMs <= SoonMs
    Option.when(isBackAndForth) {
      s"drivers on ${recent(0).host} and ${recent(1).host} have taken the query from each other " +
        s"${Notes - 1} times since ${Instant.ofEpochMilli(recent.last.startedMs)}: both are " +
        "restarted whenever they end. Stop one of the two deployments"
    }
  }
}
