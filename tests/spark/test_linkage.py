"""The jar for the installed Spark links with this Spark, and the jar for another version does not.

Spark's private interfaces change between its releases, also between patch releases. A mismatch
would appear only when a query calls the method.
"""

from dataclasses import replace
from pathlib import Path

import pytest

import cleancut
from cleancut._session.installation import spark_home, spark_line
from tests.support.classfiles import ClassFile, Library, Reference, read_classes
from tests.support.lines import OTHERS
from tests.support.promise import broken, jvm, promised, releases

_SPARK = "org/apache/spark/"
# Libraries that ship with Spark, in one version each. Some was compiled once for all versions.
_GIVEN = (_SPARK, "org/apache/hadoop/", "com/fasterxml/jackson/", "com/github/luben/", "org/slf4j/")
# Classes of Spark inherit from Scala's.
_JARS = (
    *("spark-*.jar", "scala-library-*.jar", "hadoop-client-api-*.jar", "jackson-*.jar"),
    *("zstd-jni-*.jar", "slf4j-api-*.jar"),
)
_STORE = f"{_SPARK}sql/execution/streaming/state/cleancut/statestore/LogStateStore"
_COMMIT = Reference(f"{_SPARK}sql/execution/streaming/state/StateStore", ("commit", "()J"))


class _OnThisSpark:
    """The jar for a version and the shared jar, with the jars of the installed Spark."""

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
        """Returns the members that the jar references and this Spark lacks."""
        return {reference for reference in self.references if self._library.is_missing(reference)}

    def unimplemented(self, classes: list[ClassFile]) -> set[Reference]:
        """Returns the methods that this Spark may call on objects of these classes, and that they
        lack.
        """
        return set().union(*(self._library.unimplemented(one) for one in classes))


def test_the_jar_for_this_spark_links() -> None:
    jar = _OnThisSpark(spark_line())
    assert len(jar.references) > 1000
    assert jar.missing() == set()
    assert jar.unimplemented(list(jar.classes.values())) == set()


def test_a_missing_method_that_spark_calls_is_found() -> None:
    jar = _OnThisSpark(spark_line())
    store = jar.classes[_STORE]
    members = {
        member: access for member, access in store.members.items() if member != _COMMIT.member
    }
    assert jar.unimplemented([replace(store, members=members)]) == {_COMMIT}


@pytest.mark.parametrize("release", releases())
def test_promised_classes_exist(release: str) -> None:
    before = promised(release)["jvm"]
    assert "io/cleancut/CleancutSeal" in before
    assert list(broken(before, jvm(cleancut.jar_paths()))) == []


@pytest.mark.parametrize("other", OTHERS)
def test_the_jar_for_another_version_does_not_link(other: str) -> None:
    """Otherwise one jar would suffice. This also shows that mismatches are found."""
    jar = _OnThisSpark(other)
    assert jar.missing() | jar.unimplemented(list(jar.classes.values()))
