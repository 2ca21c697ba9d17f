package io.cleancut.history

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode

import io.cleancut.format.Proof
import io.cleancut.format.cut.{CostsJson, RunId}

/**
 * The JSON form of records. See `docs/FORMAT.md`, "History". A reader ignores unknown fields, and
 * missing fields have an empty value.
 */
object EpochRecordJson {

  /** Incremented only if older readers would misinterpret a field. */
  val Version = 1

  private val mapper = new ObjectMapper

  /** @param withCells whether to include each operator's tasks */
  def write(record: EpochRecord, withCells: Boolean = true): String = {
    val node = mapper.createObjectNode().put("version", Version)
    node.put("location", record.location)
    record.name.foreach(node.put("name", _))
    record.run.queryId.foreach(node.put("queryId", _))
    node.put("runId", record.run.runId).put("generation", record.run.generation)
    node.put("epoch", record.epoch).put("writtenMs", record.writtenMs)
    node.put("stores", record.stores)
    writeCounts(record.timings, node.putObject("timings"))
    record.costs.foreach(CostsJson.write(_, node.putObject("costs")))
    node.put("rowsInFlight", record.rowsInFlight).put("bytesInFlight", record.bytesInFlight)
    record.alignmentMs.foreach(node.put("alignmentMs", _))
    record.barrierToCaptureMs.foreach(node.put("barrierToCaptureMs", _))
    if (record.aligned.nonEmpty) {
      val aligned = node.putObject("aligned")
      record.aligned.foreach { case (operator, why) => aligned.put(operator.toString, why) }
    }
    if (record.rowsBeyondBound.nonEmpty)
      writeCounts(
        record.rowsBeyondBound.map { case (operator, rows) => operator.toString -> rows },
        node.putObject("rowsBeyondBound")
      )
    if (withCells) {
      record.operators.foreach(write(_, node.withArray("operators").addObject()))
      record.stages.stages.foreach(write(_, node.withArray("stages").addObject()))
    }
    if (record.stages.operators.nonEmpty) {
      val names = node.putObject("operatorNames")
      record.stages.operators.toSeq.sorted.foreach { case (operator, name) =>
        names.put(operator.toString, name)
      }
    }
    record.growth.foreach { growth =>
      val grown = node.putObject("inFlightGrowth").put("epochs", growth.epochs)
      grown.put("fromRows", growth.fromRows).put("toRows", growth.toRows)
    }
    write(record.health, node)
    record.slow.foreach { slow =>
      val why = node.putObject("slow").put("typicalMs", slow.typicalMs)
      why.put("kind", SlowEpochs.storedName(slow.kind)).put("detail", slow.detail)
    }
    record.storedBytes.foreach(node.put("storedBytes", _))
    record.proven.foreach { proof =>
      node.putObject("proven").put("epoch", proof.epoch).put("provenMs", proof.provenMs)
    }
    mapper.writeValueAsString(node)
  }

  /** The record, or a description of the problem. */
  def read(text: String): Either[String, EpochRecord] =
    try {
      val node = mapper.readTree(text)
      val version = node.path("version").asInt
      if (version == Version) Right(read(node))
      else Left(s"version $version of a record, but this release supports $Version")
    } catch { case NonFatal(e) => Left(s"not the record of an epoch: ${e.getMessage}") }

  private def write(operator: OperatorRecord, node: ObjectNode): Unit = {
    node
      .put("operator", operator.operator)
      .put("partitions", operator.partitions)
      .put("perCell", operator.perCell)
    cells(operator).foreach { case (name, values) =>
      if (values.exists(_ != 0)) {
        val array = node.putArray(name)
        values.foreach(array.add)
      }
    }
  }

  private def write(stage: StageRecord, node: ObjectNode): Unit = {
    node.put("stage", stage.id).put("phase", stage.phase).put("tasks", stage.tasks)
    node.put("startMs", stage.startMs).put("ms", stage.ms)
    val names = node.putArray("operators")
    stage.operators.foreach(names.add)
  }

  private def cells(operator: OperatorRecord) = Seq(
    "ms" -> operator.ms,
    "bytes" -> operator.bytes,
    "rows" -> operator.rows,
    "rowsInFlight" -> operator.rowsInFlight
  )

  private def write(health: EpochHealth, node: ObjectNode): Unit = {
    if (health.pauseMs != 0) node.put("pauseMs", health.pauseMs)
    if (health.repeatedTasks != 0) node.put("repeatedTasks", health.repeatedTasks)
    health.executorsLost.foreach { case (executor, reason) =>
      val lost = node.withArray("executorsLost").addObject()
      lost.put("executor", executor).put("reason", reason)
    }
  }

  private def writeCounts(counts: Map[String, Long], node: ObjectNode): Unit =
    counts.toSeq.sortBy(_._1).foreach { case (name, count) => node.put(name, count) }

  private def read(node: JsonNode): EpochRecord = EpochRecord(
    text(node, "location").getOrElse(""),
    text(node, "name"),
    RunId(
      text(node, "queryId"),
      text(node, "runId").getOrElse(""),
      node.path("generation").asLong
    ),
    required(node, "epoch").asLong,
    required(node, "writtenMs").asLong,
    node.path("stores").asInt,
    counts(node.path("timings")),
    Option(node.get("costs")).map(CostsJson.read),
    node.path("rowsInFlight").asLong,
    node.path("bytesInFlight").asLong,
    number(node, "alignmentMs"),
    number(node, "barrierToCaptureMs"),
    fields(node.path("aligned")).map { case (operator, why) =>
      operator.toLong -> why.asText
    }.toMap,
    counts(node.path("rowsBeyondBound")).map { case (operator, rows) => operator.toLong -> rows },
    node.path("operators").elements.asScala.map(operator).toSeq,
    EpochHealth(
      node.path("pauseMs").asLong,
      node
        .path("executorsLost")
        .elements
        .asScala
        .map(lost => lost.path("executor").asText -> lost.path("reason").asText)
        .toSeq,
      node.path("repeatedTasks").asInt
    ),
    Option(node.get("slow")).map { slow =>
      SlowReason(
        slow.path("typicalMs").asLong,
        SlowEpochs.kindOf(slow.path("kind").asText),
        slow.path("detail").asText
      )
    },
    number(node, "storedBytes"),
    Option(node.get("proven"))
      .map(proof => Proof(proof.path("epoch").asLong, proof.path("provenMs").asLong)),
    EpochStages(
      node.path("stages").elements.asScala.map(stage).toSeq,
      fields(node.path("operatorNames")).map { case (operator, name) =>
        operator.toLong -> name.asText
      }.toMap
    ),
    Option(node.get("inFlightGrowth")).map { growth =>
      InFlightGrowth(
        growth.path("epochs").asInt,
        growth.path("fromRows").asLong,
        growth.path("toRows").asLong
      )
    }
  )

  private def stage(node: JsonNode): StageRecord = StageRecord(
    node.path("stage").asInt,
    node.path("phase").asText,
    node.path("operators").elements.asScala.map(_.asText).toSeq,
    node.path("tasks").asInt,
    node.path("startMs").asLong,
    node.path("ms").asLong
  )

  private def operator(node: JsonNode): OperatorRecord = {
    val (partitions, perCell) =
      (required(node, "partitions").asInt, required(node, "perCell").asInt)
    require(perCell > 0, "a cell has no partitions")
    val size = (partitions + perCell - 1) / perCell
    def cells(name: String): Seq[Long] = {
      val values = node.path(name).elements.asScala.map(_.asLong).toVector
      if (values.isEmpty) Vector.fill(size)(0L)
      else {
        require(values.size == size, s"$name has ${values.size} cells instead of $size")
        values
      }
    }
    OperatorRecord(
      required(node, "operator").asLong,
      partitions,
      perCell,
      cells("ms"),
      cells("bytes"),
      cells("rows"),
      cells("rowsInFlight")
    )
  }

  private def required(node: JsonNode, name: String): JsonNode = {
    val value = node.get(name)
    require(value != null && value.isIntegralNumber, s"it has no number $name")
    value
  }

  private def text(node: JsonNode, name: String) = Option(node.get(name)).map(_.asText)

  private def number(node: JsonNode, name: String) = Option(node.get(name)).map(_.asLong)

  private def fields(node: JsonNode) =
    node.properties.asScala.iterator.map(field => field.getKey -> field.getValue)

  private def counts(node: JsonNode): Map[String, Long] =
    fields(node).map { case (name, value) => name -> value.asLong }.toMap
}
