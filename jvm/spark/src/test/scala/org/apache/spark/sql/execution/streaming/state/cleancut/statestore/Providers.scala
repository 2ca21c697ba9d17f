package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.nio.file.{Files, Path}
import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.Utils

import io.cleancut.CleancutStateStoreProvider

/** Providers without a session, and rows for them: (id, name) -> (count, sum). */
object Providers {
  val KeySchema: StructType =
    StructType(Seq(StructField("id", LongType), StructField("name", StringType)))
  val ValueSchema: StructType =
    StructType(Seq(StructField("count", LongType), StructField("sum", DoubleType)))

  val Plain: KeyStateEncoderSpec = NoPrefixKeyStateEncoderSpec(KeySchema)
  val ByPrefix: KeyStateEncoderSpec = PrefixKeyScanStateEncoderSpec(KeySchema, 1)

  private val keyOf = UnsafeProjection.create(KeySchema)
  private val valueOf = UnsafeProjection.create(ValueSchema)
  private val prefixOf = UnsafeProjection.create(StructType(KeySchema.take(1)))

  /** The parameters of a provider. */
  final case class Setup(
      directory: Path,
      encoder: KeyStateEncoderSpec = Plain,
      confs: Map[String, String] = Map.empty,
      hadoop: Map[String, String] = Map.empty,
      name: String = StateStoreId.DEFAULT_STORE_NAME,
      operator: Long = 0L,
      partition: Int = 0,
      valueSchema: StructType = ValueSchema
  ) {
    def open(className: String = classOf[CleancutStateStoreProvider].getName): StateStoreProvider =
      openWith(className, useColumnFamilies = false)

    def openWith(className: String, useColumnFamilies: Boolean): StateStoreProvider = {
      val sqlConf = new SQLConf
      confs.foreach { case (key, value) => sqlConf.setConfString(key, value) }
      val hadoopConf = new Configuration
      hadoop.foreach { case (key, value) => hadoopConf.set(key, value) }
      hadoopConf.set("sql.streaming.runId", UUID.randomUUID().toString)
      val provider = StateStoreProvider.create(className)
      provider.init(
        StateStoreId(directory.resolve("state").toString, operator, partition, name),
        KeySchema,
        valueSchema,
        encoder,
        useColumnFamilies,
        StateStoreConf(sqlConf),
        hadoopConf
      )
      provider
    }

    /** The frames of the store, sorted by name. */
    def frames: Seq[Path] = {
      val store = directory.resolve(s"cleancut/stores/$operator/$partition/$name")
      if (!Files.isDirectory(store)) Nil
      else {
        val listed = Files.list(store)
        try
          listed.toArray.toSeq
            .map(_.asInstanceOf[Path])
            .filter { path =>
              path.toString.endsWith(".delta") || path.toString.endsWith(".base")
            }
            .sortBy(_.getFileName.toString)
        finally listed.close()
      }
    }
  }

  /** A setup in a new directory, which is deleted when the JVM ends. */
  def setup(): Setup = Setup(Utils.createTempDir(namePrefix = "cleancut-provider").toPath)

  def key(id: Long, name: String = "n"): UnsafeRow =
    keyOf(InternalRow(id, UTF8String.fromString(name))).copy()

  def prefix(id: Long): UnsafeRow = prefixOf(InternalRow(id)).copy()

  def value(count: Long): UnsafeRow = valueOf(InternalRow(count, count / 2.0)).copy()

  /** Puts and commits the pairs as one version; returns the number of the new version. */
  def commit(provider: StateStoreProvider, version: Long, pairs: (Long, Long)*): Long = {
    val store = provider.getStore(version)
    pairs.foreach { case (id, count) => store.put(key(id), value(count)) }
    store.commit()
  }

  /** All rows of a store, as id -> count. */
  def rows(store: ReadStateStore): Map[Long, Long] = {
    val pairs = store.iterator().map(pair => pair.key.getLong(0) -> pair.value.getLong(0)).toSeq
    assert(pairs.map(_._1).distinct.size == pairs.size, "duplicate keys")
    pairs.toMap
  }

  /** All rows of a version, read by a new provider. */
  def rowsAt(setup: Setup, version: Long): Map[Long, Long] = {
    val provider = setup.open()
    try {
      val store = provider.getReadStore(version)
      try rows(store)
      finally store.release()
    } finally provider.close()
  }
}
