package org.apache.spark.sql.execution.streaming.state.cleancut.session

import java.lang.ProcessBuilder.Redirect
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.api.python.{PythonEvalType, PythonFunction, PythonUtils}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

import io.cleancut.error.Errors

/**
 * Checks that the Python functions of a query find the packages that PySpark's workers import. A
 * worker without them crashes, and Spark reports the crash without its reason.
 *
 * Only this host's Python is checked. Executors of a cluster may have other packages, so there the
 * check covers only the worker that Spark starts in the driver for `transformWithState`.
 */
private[session] object PythonPackages extends Logging {
  private val ProbeTimeoutMs = 20000L
  private val Stateful = "SQL_TRANSFORM_WITH_STATE_"
  private val Protobuf = "google.protobuf"

  // Names of packages that differ from those of their modules.
  private val PackageOf = Map(Protobuf -> "protobuf")

  // `find_spec` imports the parents of a module only.
  private val Probe =
    """import importlib.util, sys
      |for name in sys.argv[1:]:
      |    try:
      |        spec = importlib.util.find_spec(name)
      |    except ImportError:
      |        spec = None
      |    print(f"{name}={spec is not None}")
      |""".stripMargin

  /** A Python interpreter and its module path. */
  final private case class Interpreter(executable: String, modulePath: String)

  // The modules that an interpreter has. Missing ones may be installed at any time.
  private val present = ConcurrentHashMap.newKeySet[(Interpreter, String)]()

  /**
   * @param isLocal
   *   whether tasks run on this host
   * @throws io.cleancut.error.CleancutException
   *   `CLEANCUT_PYTHON_PACKAGE_MISSING`
   */
  def check(query: LogicalPlan, isLocal: Boolean): Unit =
    functionsOf(query).foreach { function =>
      val wanted = modulesOf(PythonEvalType.toString(function.evalType), isLocal)
      val python = interpreterOf(function.func)
      val missing = missingOf(python, wanted)
      if (missing.nonEmpty) {
        val packages = missing.map(module => PackageOf.getOrElse(module, module))
        throw Errors.pythonPackageMissing(function.name, python.executable, packages.mkString(" "))
      }
    }

  /** The modules that a worker imports for functions of a kind. */
  private[session] def modulesOf(evalType: String, isLocal: Boolean): Seq[String] = {
    val inTasks =
      if (evalType.contains("PANDAS")) Seq("pandas", "pyarrow")
      else if (evalType.contains("ARROW") || evalType.startsWith(Stateful)) Seq("pyarrow")
      else Seq.empty
    val inDriver = if (evalType.startsWith(Stateful)) Seq(Protobuf) else Seq.empty
    if (isLocal) inTasks ++ inDriver else inDriver
  }

  private def functionsOf(query: LogicalPlan): Seq[PythonUDF] =
    query.flatMap(_.expressions.flatMap(_.collect { case function: PythonUDF => function }))

  private def interpreterOf(function: PythonFunction): Interpreter = {
    val configured = Option(function.envVars.get("PYTHONPATH")).getOrElse("")
    val inherited = sys.env.getOrElse("PYTHONPATH", "")
    val merged = PythonUtils.mergePythonPaths(PythonUtils.sparkPythonPath, configured, inherited)
    Interpreter(function.pythonExec, merged)
  }

  private def missingOf(python: Interpreter, modules: Seq[String]): Seq[String] = {
    val unknown = modules.filterNot(module => present.contains((python, module)))
    if (unknown.isEmpty) Seq.empty
    else {
      val probed = probe(python, unknown)
      probed.foreach { case (module, exists) => if (exists) present.add((python, module)) }
      unknown.filter(probed.get(_).contains(false))
    }
  }

  /** Whether each module exists; empty if the interpreter does not run, which Spark reports. */
  private def probe(python: Interpreter, modules: Seq[String]): Map[String, Boolean] =
    try {
      val command = Seq(python.executable, "-c", Probe) ++ modules
      val builder = new ProcessBuilder(command.asJava).redirectError(Redirect.DISCARD)
      builder.environment().put("PYTHONPATH", python.modulePath)
      val process = builder.start()
      try {
        process.getOutputStream.close()
        // The output is shorter than the buffer of a pipe.
        if (process.waitFor(ProbeTimeoutMs, TimeUnit.MILLISECONDS) && process.exitValue == 0)
          parse(new String(process.getInputStream.readAllBytes(), UTF_8))
        else Map.empty
      } finally process.destroy()
    } catch {
      case NonFatal(e) =>
        logDebug(s"The packages of ${python.executable} are unknown", e)
        Map.empty
    }

  private def parse(lines: String): Map[String, Boolean] =
    lines.linesIterator
      .map(_.split('='))
      .collect { case Array(name, exists) =>
        name -> (exists == "True")
      }
      .toMap
}
