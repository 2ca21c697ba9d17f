package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.{
  FamilyKind,
  RangeOrder
}
import org.apache.spark.sql.types.StructType

import io.cleancut.engine.memory.Memory
import io.cleancut.format.frame.FamilySchema

/**
 * The column families that Spark has declared to this provider, by name. The families of a version
 * are in its log.
 */
final private[cleancut] class StoreFamilies(request: InitRequest) {
  import StoreFamilies._

  private val declared = new ConcurrentHashMap[String, FamilySchema]
  private val kinds = new ConcurrentHashMap[FamilySchema, FamilyKind]

  val default: FamilySchema = declare(
    StateStore.DEFAULT_COL_FAMILY_NAME,
    request.encoder,
    request.valueSchema,
    request.isMultiValued,
    // If Spark uses families, its default family is empty.
    isInternal = false
  )

  def kind(schema: FamilySchema): FamilyKind =
    kinds.computeIfAbsent(schema, new FamilyKind(_, Memory.access, request.schemas))

  def get(name: String): Option[FamilySchema] = Option(declared.get(name))

  /** The schema of the family from now on; the first declaration counts. */
  def create(
      name: String,
      spec: KeyStateEncoderSpec,
      valueSchema: StructType,
      isMultiValued: Boolean,
      isInternal: Boolean
  ): FamilySchema = {
    checkChange("create_col_family", name, isInternal)
    // Every task declares all its families in each epoch, so schemas are converted to JSON only
    // once.
    get(name).getOrElse(declare(name, spec, valueSchema, isMultiValued, isInternal))
  }

  def remove(name: String): Unit = {
    declared.remove(name)
    ()
  }

  /** Throws Spark's errors for a family that cannot be created or removed. */
  def checkChange(operation: String, name: String, isInternal: Boolean): Unit = {
    checkUse(operation)
    val isDefault = name == StateStore.DEFAULT_COL_FAMILY_NAME
    if (name.isEmpty || name.trim != name || (isDefault && !isInternal)) {
      throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
    }
    if (!isInternal && name.startsWith("$")) {
      throw StateStoreErrors.cannotCreateColumnFamilyWithReservedChars(name)
    }
  }

  /** Throws Spark's errors for an invalid family name. */
  def checkName(operation: String, name: String): Unit =
    if (name != StateStore.DEFAULT_COL_FAMILY_NAME) {
      checkUse(operation)
      if (name.isEmpty || name.trim != name) {
        throw StateStoreErrors.cannotUseColumnFamilyWithInvalidName(operation, name)
      }
    }

  private def checkUse(operation: String): Unit =
    if (!request.usesFamilies) {
      throw StateStoreErrors.unsupportedOperationException(operation, Disabled)
    }

  private def declare(
      name: String,
      spec: KeyStateEncoderSpec,
      valueSchema: StructType,
      isMultiValued: Boolean,
      isInternal: Boolean
  ): FamilySchema = {
    spec match {
      case range: RangeKeyScanStateEncoderSpec =>
        RangeOrder.check(range.keySchema, range.orderingOrdinals)
      case _ => ()
    }
    // The schema of the spec is that of the rows: with a timestamp it has one column more than
    // Spark's.
    val schema = FamilySchema(
      id = 0,
      name,
      spec.keySchema.json,
      valueSchema.json,
      spec.json,
      isMultiValued,
      isInternal,
      request.conf.stateStoreEncodingFormat
    )
    request.schemas.foreach {
      // Spark's tests of state variables have no other source of the schemas.
      case tested: TestStateSchemaProvider =>
        tested.captureSchema(name, spec.keySchema, valueSchema)
      case _ => ()
    }
    Option(declared.putIfAbsent(name, schema)).getOrElse(schema)
  }
}

private[cleancut] object StoreFamilies {
  private val Disabled = "multiple column families is disabled in CleancutStateStoreProvider"
}
