"""The jar for the installed Spark refers to nothing that this Spark does not have.

Spark's private interfaces change between its releases, also within a line. A reference that is
gone would show only when a query comes by.
"""

from pathlib import Path

import cleancut
from cleancut._installed import spark_home
from tests.support.classfiles import Library, read_classes

_SPARK = "org/apache/spark/"
# Classes of Spark inherit from Scala's.
_JARS = ("spark-*.jar", "scala-library-*.jar")


def test_every_reference_to_spark_resolves() -> None:
    jar = Path(cleancut.jar_path())
    ours = [*read_classes(jar, "io/cleancut/"), *read_classes(jar, _SPARK)]
    library = Library([jar, *(j for name in _JARS for j in (spark_home() / "jars").glob(name))])
    looked_up = [
        (found.name, reference)
        for found in ours
        for reference in found.references
        if reference.owner.startswith(_SPARK)
    ]
    assert len(looked_up) > 1000
    assert [wanted for wanted in looked_up if library.lacks(wanted[1])] == []
