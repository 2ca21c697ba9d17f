package org.apache.spark.sql.execution.streaming.state.cleancut.session.pythonstate

import java.io.ByteArrayOutputStream
import java.util.{List => JavaList}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import net.razorvine.pickle.{Pickler, Unpickler}

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.execution.python.EvaluatePython
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.ValueState
import org.apache.spark.sql.types.{BinaryType, StructType}

/**
 * Reads and writes the state of many keys for one message of the Python worker.
 *
 * The worker declares a value state with a reserved name. Spark's state server passes its updates
 * and reads to this object: an update is a request, and the next read returns the responses. So
 * requests and responses keep their order with other messages, and the protocol of the server does
 * not change. `worker/state_batches.py` has the other side.
 *
 * A request is a pickled tuple:
 *   - `added`: keys that are appended to the table of keys;
 *   - `writes`: for each write the number of its key in the table, operation, name of the state
 *     variable and value, without nesting;
 *   - `keys`: the new table, if it changes after the writes;
 *   - `reads`: (operation, variable, argument) of the reads for each key of the new table.
 *
 * Keys and values have the representation of PySpark's own messages. One that may change before the
 * request is sent is pickled separately, as bytes. Responses are a sequence of pickled lists with a
 * tuple for each key. The last keys have none if the responses reach [[MaxResponseBytes]].
 */
final private[cleancut] class StateBatches(
    keySchema: StructType,
    variables: StateVariables,
    handle: statefulprocessor.StatefulProcessorHandleImpl
) extends ValueState[Row] {
  import StateBatches._

  private val keyRows = new PickledRows(keySchema)
  private val unpickler = new Unpickler
  private val table = mutable.ArrayBuffer.empty[Row]
  private var responses: Array[Byte] = Array.emptyByteArray

  override def exists(): Boolean = true

  override def clear(): Unit = responses = Array.emptyByteArray

  override def get(): Row = {
    val row = new GenericRowWithSchema(Array[Any](responses), ResponseSchema)
    clear()
    row
  }

  override def update(request: Row): Unit = {
    val fields = unpickler.loads(request.getAs[Array[Byte]](0)).asInstanceOf[Array[Object]]
    val keys = fields(2)
    // Spark's own requests follow for this key.
    val key = statefulprocessor.ImplicitGroupingKeyTracker.getImplicitKeyOption
    addKeys(fields(0))
    write(fields(1).asInstanceOf[JavaList[Object]])
    if (keys != null) {
      table.clear()
      addKeys(keys)
      responses = answers(fields(3).asInstanceOf[JavaList[Array[Object]]].asScala.toArray)
    }
    key match {
      case Some(value) => statefulprocessor.ImplicitGroupingKeyTracker.setImplicitKey(value)
      case None        => statefulprocessor.ImplicitGroupingKeyTracker.removeImplicitKey()
    }
  }

  private def addKeys(keys: Object): Unit =
    keys.asInstanceOf[JavaList[Object]].forEach(key => table += keyRows.row(key))

  private def write(writes: JavaList[Object]): Unit = {
    val fields = writes.iterator
    var current = -1
    while (fields.hasNext) {
      val key = fields.next().asInstanceOf[Number].intValue
      if (key != current) {
        statefulprocessor.ImplicitGroupingKeyTracker.setImplicitKey(table(key))
        current = key
      }
      val operation = fields.next().asInstanceOf[Number].intValue
      val variable = fields.next().asInstanceOf[String]
      val value = fields.next()
      operation match {
        case RegisterTimer => handle.registerTimer(value.asInstanceOf[Number].longValue)
        case DeleteTimer   => handle.deleteTimer(value.asInstanceOf[Number].longValue)
        case _             => variables(variable).write(operation, value)
      }
    }
  }

  private def answers(reads: Array[Array[Object]]): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    if (reads.nonEmpty) {
      val binaryAsBytes = SQLConf.get.pysparkBinaryAsBytes
      val resolved = reads.map { read =>
        val variable = variables(read(1).asInstanceOf[String])
        variable.reader(read(0).asInstanceOf[Number].intValue, read(2), binaryAsBytes)
      }
      EvaluatePython.registerPicklers()
      val pickler = new Pickler(true, false)
      var next = 0
      while (next < table.size && bytes.size < MaxResponseBytes) {
        val end = math.min(table.size, next + KeysOfList)
        val list = new java.util.ArrayList[Array[Any]](end - next)
        (next until end).foreach { key =>
          statefulprocessor.ImplicitGroupingKeyTracker.setImplicitKey(table(key))
          list.add(resolved.map(_.apply()))
        }
        bytes.write(pickler.dumps(list))
        next = end
      }
    }
    bytes.toByteArray
  }
}

private[cleancut] object StateBatches {

  /** The name of the value state. Spark's own internal names also begin with `$`. */
  val Name = "$cleancut"

  /** Keys without a response are requested again. */
  val MaxResponseBytes: Int = 1 << 20

  // The limit is checked after each list.
  private val KeysOfList = 16

  private val ResponseSchema = new StructType().add("responses", BinaryType)

  // Numbers of the operations, as in the worker.
  val ValueUpdate = 0
  val ListPut = 1
  val ListAppend = 2
  val ListAppendAll = 3
  val MapUpdate = 4
  val MapRemove = 5
  val Clear = 6
  val RegisterTimer = 7
  val DeleteTimer = 8

  val Exists = 0
  val ValueGet = 1
  val ListGet = 2
  val MapGet = 3
  val MapContains = 4
  val MapEntries = 5
  val MapKeys = 6
  val MapValues = 7
}
