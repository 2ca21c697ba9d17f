package io.cleancut.e2e

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.TestDirectory
import io.cleancut.testkit.inputs._

/** Generators cover all possible pairs of values in a cycle of seeds. */
class InputCoverageSuite extends AnyFunSuite {
  import InputCoverageSuite._

  for (cycle <- Cycles) {
    test(s"randomized queries of cycle $cycle have each possible pair of values") {
      val size = RandomQueryInputs.selections.size.toLong
      val seeds = cycle * size until (cycle + 1) * size
      checkPairs(RandomQueryInputs.Space, seeds.map(new RandomQuery(_).covered))
    }

    test(s"queries with cuts of cycle $cycle have each possible pair of values") {
      val size = (UnalignedInputs.enough + 1) / 2L
      val seeds = cycle * size until (cycle + 1) * size
      checkPairs(UnalignedInputs.Space, seeds.map(new UnalignedFate(_).covered))
    }
  }

  test("make chaos runs complete cycles, whichever seed is the first") {
    val makefile = Files.readString(Path.of("Makefile"))
    def runs(name: String) =
      s"chaos: export $name \\?= (\\d+)".r.findFirstMatchIn(makefile).get.group(1).toInt
    assert(runs("CLEANCUT_QUERIES") >= RandomQueryInputs.selections.enough)
    assert(runs("CLEANCUT_UNALIGNED_QUERIES") >= UnalignedInputs.enough)
  }

  test("operations on the queries of a cycle have each possible pair of values") {
    val inputs = for {
      operations <- OperationInputs.Operations.values
      seed <- 0L until RandomQueryInputs.selections.size.toLong
    } yield OperationInputs.covered(operations, new RandomQuery(seed))
    checkPairs(OperationInputs.Space, inputs)
  }

  test("consecutive seeds have different operators, and a query has some runs") {
    val operators = UnalignedQuery.operators.size
    val fates = (0L until 2L * operators).map(new UnalignedFate(_))
    assert(fates.take(operators).map(_.query.operator.name) == UnalignedQuery.operators.map(_.name))
    assert(fates.map(_.query.number).distinct.size == operators)
    assert(fates.take(operators).map(_.settings) != fates.drop(operators).map(_.settings))
  }

  test("each cycle of queries has all pairs, although its selections are few") {
    (0L until 40L).foreach(cycle => UnalignedInputs.ofQuery(cycle * UnalignedInputs.queries))
  }

  test("a selection that misses a pair is refused") {
    val error = intercept[IllegalStateException](
      CoveringArray.rows(Small, Seq.fill(5)(Selection(Map.empty)), seed = 1)
    )
    assert(error.getMessage.contains("5 selections do not have"))
    val fixed = Seq.fill(9)(Selection(Map("a" -> 0)))
    val missing = intercept[IllegalStateException](CoveringArray.rows(Small, fixed, seed = 1))
    assert(missing.getMessage.contains("a 2 with b x"))
  }

  test("given values remain, and impossible pairs are never selected") {
    val fixed = (0 until 12).map(row => Selection(Map("a" -> row % 3)))
    val rows = CoveringArray.rows(Small, fixed, seed = 1)
    assert(rows.map(_(A)) == (0 until 12).map(row => A.values(row % 3)))
    assert(!rows.exists(row => row(A) == 1 && row(B) == "y"))
  }

  test("the log has the space of a generator and the inputs of its runs") {
    TestDirectory.use("cleancut-inputs") { home =>
      val log = new InputLog(Some(home))
      log.add(Small, 5, Map("a" -> Set("2", "3"), "b" -> Set("x")))
      log.add(Small, 6, Map("a" -> Set("1")))
      val files = Files.list(home).iterator.asScala.toSeq
      assert(files.size == 1)
      val lines = Files.readAllLines(files.head).asScala.map(new ObjectMapper().readTree(_))
      assert(lines.size == 3)
      assert(lines.head.at("/dimensions/1/name").asText == "b")
      assert(lines.head.at("/impossible/0/reason").asText == "no reason")
      assert(lines(1).at("/seed").asLong == 5 && lines(1).at("/inputs/a/1").asText == "3")
      assert(lines(2).at("/generator").asText == "small")
    }
  }

  test("the log of steps has each different step of a run with the step before it") {
    TestDirectory.use("cleancut-steps") { home =>
      val space = InputSpace("machine", StepLog.dimensions(Seq("add", "read")) :+ C, Nil)
      val log = new InputLog(Some(home))
      for (flag <- Seq(false, true)) {
        val steps = new StepLog(space, Map(C.nameOf(flag)), log)
        Seq("add", "add", "read", "add", "add").foreach(steps.add(_))
      }
      val lines = Files.list(home).iterator.asScala.toSeq.flatMap { file =>
        Files.readAllLines(file).asScala.map(new ObjectMapper().readTree(_))
      }
      val inputs = lines.filter(_.has("inputs"))
      assert(inputs.map(_.at("/seed").asText).distinct.size == 8)
      val ofFirst = inputs.filter(_.at("/inputs/c/0").asText == "no")
      assert(
        ofFirst.map(one =>
          one.at("/inputs/step before/0").asText -> one.at("/inputs/step/0").asText
        )
          == Seq("" -> "add", "add" -> "add", "add" -> "read", "read" -> "add")
      )
    }
  }

  /** Checks the pairs of runs, without the code that selects them. */
  private def checkPairs(space: InputSpace, runs: Seq[Map[String, Set[String]]]): Unit = {
    val covered = (for {
      run <- runs.map(_.toSeq)
      (one, values) <- run
      (other, others) <- run
      value <- values
      another <- others
    } yield (one -> value, other -> another)).toSet
    val impossible = (for {
      rule <- space.impossible
      (one, other) <- Seq(rule.first -> rule.second, rule.second -> rule.first)
      value <- one.values
      another <- other.values
    } yield (one.dimension -> value, other.dimension -> another)).toSet
    val wrong = covered.intersect(impossible)
    assert(wrong.isEmpty, wrong.take(20).mkString("\n", "\n", ""))
    val missing = for {
      Seq(one, other) <- space.dimensions.combinations(2).toSeq
      value <- one.names
      another <- other.names
      pair = (one.name -> value, other.name -> another)
      if !impossible(pair) && !covered(pair)
    } yield pair
    assert(missing.isEmpty, missing.take(20).mkString("\n", "\n", ""))
    ()
  }
}

private object InputCoverageSuite {
  val Cycles = Seq(0L, 1L, -1L, 5000000L)
  val A = new Dimension[Int]("a", 1 to 3)
  val B = new Dimension[String]("b", Seq("x", "y"))
  val C: Dimension[Boolean] = Dimension.flag("c")
  val Small: InputSpace = InputSpace(
    "small",
    Seq(A, B, C),
    Seq(Impossible(A.where(_ == 1), B.where(_ == "y"), "no reason"))
  )
}
