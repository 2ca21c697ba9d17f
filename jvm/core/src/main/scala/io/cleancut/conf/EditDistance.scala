package io.cleancut.conf

/** Levenshtein's distance: the fewest insertions, deletions and replacements of one character. */
private[conf] object EditDistance {

  def ignoringCase(left: String, right: String): Int = between(left.toLowerCase, right.toLowerCase)

  private def between(left: String, right: String): Int = {
    val firstRow = (0 to right.length).toVector
    left
      .foldLeft(firstRow) { (above, leftChar) =>
        right.indices.foldLeft(Vector(above.head + 1)) { (row, i) =>
          val replaced = above(i) + (if (leftChar == right(i)) 0 else 1)
          row :+ replaced.min(above(i + 1) + 1).min(row.last + 1)
        }
      }
      .last
  }
}
