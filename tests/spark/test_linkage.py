"""The jar for the installed Spark fits this Spark, and the jar for another line does not.

Spark's private interfaces change between its releases, also within a line. What does not fit would
show only when a query comes by.
"""

from dataclasses import replace
from pathlib import Path

import pytest

import cleancut
from cleancut._session.installed import spark_home, spark_line
from tests.support.classfiles import ClassFile, Library, Reference, read_classes
from tests.support.lines import OTHERS
from tests.support.promise import broken, jvm, promised, releases

_SPARK = "org/apache/spark/"
# What comes with Spark, in a version for each line. Some was compiled once for all of them.
_GIVEN = (_SPARK, "org/apache/hadoop/", "com/fasterxml/jackson/", "com/github/luben/", "org/slf4j/")
# Classes of Spark inherit from Scala's.
_JARS = (
    *("spark-*.jar", "scala-library-*.jar", "hadoop-client-api-*.jar", "jackson-*.jar"),
    *("zstd-jni-*.jar", "slf4j-api-*.jar"),
)
_STORE = f"{_SPARK}sql/execution/streaming/state/cleancut/statestore/LogStateStore"
_COMMIT = Reference(f"{_SPARK}sql/execution/streaming/state/StateStore", ("commit", "()J"))


class _OnThisSpark:
    """The jar of a line, and that which all lines share, beside those of the installed Spark."""

    def __init__(self, line: str) -> None:
        common, ours = map(Path, cleancut.jar_paths())
        ours = ours.with_name(ours.name.replace(f"-{spark_line()}_", f"-{line}_"))
        spark = [jar for name in _JARS for jar in (spark_home() / "jars").glob(name)]
        self._library = Library([common, ours, *spark])
        both = (
            one
            for jar in (common, ours)
            for one in read_classes(jar, without="io/cleancut/shaded/")
        )
        self.classes = {one.name: one for one in both}
        self.references = [
            reference
            for one in self.classes.values()
            for reference in one.references
            if reference.owner.startswith(_GIVEN)
        ]

    def missing(self) -> set[Reference]:
        """What the jar refers to and this Spark does not have."""
        return {reference for reference in self.references if self._library.lacks(reference)}

    def unimplemented(self, classes: list[ClassFile]) -> set[Reference]:
        """What this Spark may call on objects of these classes, and they do not have."""
        return set().union(*(self._library.unimplemented(one) for one in classes))


def test_the_jar_for_this_spark_fits() -> None:
    jar = _OnThisSpark(spark_line())
    assert len(jar.references) > 1000
    assert jar.missing() == set()
    assert jar.unimplemented(list(jar.classes.values())) == set()


def test_a_method_that_spark_calls_and_we_lack_is_found() -> None:
    jar = _OnThisSpark(spark_line())
    store = jar.classes[_STORE]
    members = {
        member: access for member, access in store.members.items() if member != _COMMIT.member
    }
    assert jar.unimplemented([replace(store, members=members)]) == {_COMMIT}


@pytest.mark.parametrize("release", releases())
def test_what_a_release_has_promised_of_its_classes_is_there(release: str) -> None:
    before = promised(release)["jvm"]
    assert "io/cleancut/CleancutSeal" in before
    assert list(broken(before, jvm(cleancut.jar_paths()))) == []


@pytest.mark.parametrize("other", OTHERS)
def test_the_jar_for_another_line_does_not_fit(other: str) -> None:
    """Else one jar would do. It also shows that what does not fit is found."""
    jar = _OnThisSpark(other)
    assert jar.missing() | jar.unimplemented(list(jar.classes.values()))
