package io.cleancut.testkit.inputs

/**
 * A dimension of the inputs of a generator.
 *
 * @param choices
 *   its values; a repeated value is more frequent
 */
final class Dimension[T](
    val name: String,
    val choices: Seq[T],
    describe: T => String = (value: T) => value.toString
) {
  val values: IndexedSeq[T] = choices.distinct.toIndexedSeq
  val names: IndexedSeq[String] = values.map(describe)

  /** Indices of values, as often as they are in the choices. */
  val weighted: IndexedSeq[Int] = choices.map(values.indexOf(_)).toIndexedSeq

  /** The dimension with the name of a value, for an [[InputLog]]. */
  def nameOf(value: T): (String, Set[String]) = namesOf(Set(value))

  /** The dimension with the names of values. */
  def namesOf(some: Set[T]): (String, Set[String]) =
    name -> some.map(value => names(values.indexOf(value)))

  /** A condition on the value, for [[Impossible]]. */
  def where(condition: T => Boolean): Condition =
    Condition(name, values.zip(names).collect { case (value, named) if condition(value) => named })
}

object Dimension {
  def flag(name: String): Dimension[Boolean] =
    new Dimension(name, Seq(false, true), (value: Boolean) => if (value) "yes" else "no")
}

/** Values of a dimension, by their names. */
final case class Condition(dimension: String, values: Seq[String])

/** Two conditions that no run can meet together. */
final case class Impossible(first: Condition, second: Condition, reason: String)

/** The dimensions of a generator, and the pairs of values that no run can have. */
final case class InputSpace(
    generator: String,
    dimensions: Seq[Dimension[_]],
    impossible: Seq[Impossible]
)

/** One value for some dimensions, as the index of the value by the name of the dimension. */
final case class Selection(indices: Map[String, Int]) {
  def apply[T](dimension: Dimension[T]): T = dimension.values(indices(dimension.name))

  /** The names of the selected values. */
  def names(dimensions: Seq[Dimension[_]]): Map[String, Set[String]] =
    dimensions.map(one => one.name -> Set(one.names(indices(one.name)))).toMap
}
