package io.cleancut.e2e

import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark

import io.cleancut.CleancutStateStoreProvider
import io.cleancut.testkit.inputs._

/** The state store of a query before its first operation. */
final case class FirstStore(name: String, provider: String, hasCuts: Boolean = false)

/** The inputs of [[RandomOperationsSuite]]: a query, its first state store, and the operations. */
object OperationInputs {
  val Converted = "conversion there and back"
  val Rescaled = "rescales"
  val RolledBack = "rollbacks and their undo"
  val Referring = "rescales and rollbacks by reference"

  val RocksDb: FirstStore = FirstStore("RocksDB", RocksDbComparison.RocksDb)
  val Hdfs: FirstStore = FirstStore(
    "HDFS-backed",
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
  )
  private val Cleancut = classOf[CleancutStateStoreProvider].getName
  private val WithoutCuts = FirstStore("Cleancut without cuts", Cleancut)
  private val WithCuts = FirstStore("Cleancut with cuts", Cleancut, hasCuts = true)

  val Operations =
    new Dimension[String]("operations", Seq(Converted, Rescaled, RolledBack, Referring))

  val Store = new Dimension[FirstStore](
    "first state store",
    Seq(RocksDb, Hdfs, WithoutCuts, WithCuts),
    (store: FirstStore) => store.name
  )

  val Space: InputSpace = InputSpace(
    "operations between the steps of a query",
    Seq(Operations, Store, RandomQueryInputs.Operator),
    Operations.values.map { operations =>
      val stores = storesOf(operations)
      Impossible(
        Operations.where(_ == operations),
        Store.where(!stores.contains(_)),
        if (operations == Converted) "Spark's state is converted"
        else "other state has no such operations"
      )
    } :+ Impossible(
      Store.where(_ == Hdfs),
      RandomQueryInputs.Operator.where(_.name.contains("transformWithState")),
      "it has no column families"
    )
  )

  /** The number of seeds after which each operator has had each store that its format permits. */
  val Enough: Int = 3 * StatefulOperators.all.size

  /** Consecutive seeds have different operators, and all of them the same store. */
  def storeOf(operations: String, query: RandomQuery): FirstStore = {
    val round = Math.floorDiv(query.seed, StatefulOperators.all.size.toLong)
    val stores = storesOf(operations)
    val store = stores(Math.floorMod(round, stores.size.toLong).toInt)
    if (store == Hdfs && !isOnHdfs(query)) RocksDb
    else if (operations == Converted && isInEvenCycle(query) && isOnHdfs(query) && isJoin(query))
      // Few joins of a cycle have a format of the HDFS-backed provider.
      Hdfs
    else store
  }

  def covered(operations: String, query: RandomQuery): Map[String, Set[String]] = Map(
    Operations.nameOf(operations),
    Store.nameOf(storeOf(operations, query)),
    RandomQueryInputs.Operator.nameOf(query.operator)
  )

  private def storesOf(operations: String): Seq[FirstStore] = operations match {
    case Converted                                => Seq(RocksDb, Hdfs)
    case Referring                                => Seq(WithCuts)
    case _ if TestedSpark.OperationsWriteForSpark => Seq(WithoutCuts, WithCuts, RocksDb)
    case _                                        => Seq(WithoutCuts, WithCuts)
  }

  private def isInEvenCycle(query: RandomQuery) =
    Math.floorMod(Math.floorDiv(query.seed, RandomQueryInputs.selections.size.toLong), 2L) == 0

  private def isJoin(query: RandomQuery) = query.operator.name.contains(" join, ")

  /** The HDFS-backed provider has no column families and no version IDs. */
  private def isOnHdfs(query: RandomQuery): Boolean =
    !query.operator.name.contains("transformWithState") &&
      !query.settings.get("spark.sql.streaming.join.stateFormatVersion").exists(_.toInt > 2)
}
