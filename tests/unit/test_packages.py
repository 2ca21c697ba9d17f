"""Packages of both languages have few files and depend on each other in one direction."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
SCALA_SOURCES = ("jvm/core/src/main", "jvm/spark/src/main")
SOURCE_SUFFIXES = (".scala", ".py")
MAX_FILES = 20

Graph = Mapping[str, Mapping[str, set[str]]]


def find_cycle(graph: Graph) -> list[str]:
    """Returns a cycle of a graph, from one node to the same one, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        # In the order of the arrows: the sorter has each node after its dependencies.
        return [str(node) for node in reversed(found.args[1])]
    return []


def dependencies_in_cycle(graph: Graph) -> list[str]:
    """Returns the dependencies of a cycle with their files, or nothing."""
    return [
        f"{one} -> {other}: {', '.join(sorted(graph[one][other]))}"
        for one, other in pairwise(find_cycle(graph))
    ]


def scala_code(text: str) -> str:
    """Returns code without comments and string literals, whose names are no dependencies."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r'""".*?"""|"(?:[^"\\\n]|\\.)*"', '""', text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", " ", text)


def scala_graph() -> Graph:
    """Returns the packages of the JVM side, by the qualified names in their sources."""
    sources = [path for root in SCALA_SOURCES for path in (ROOT / root).rglob("*.scala")]
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    packages = {
        path: ".".join(re.findall(r"^package ([\w.]+)$", text, re.MULTILINE))
        for path, text in texts.items()
    }
    known = {package for package in packages.values() if "cleancut" in package}
    graph: dict[str, dict[str, set[str]]] = {}
    for path, text in texts.items():
        package = packages[path]
        if package not in known:
            continue
        body = re.sub(r"^package .*$", "", scala_code(text), flags=re.MULTILINE)
        for name in re.findall(r"\b(?:io\.cleancut|org\.apache\.spark\.sql)[\w.]*", body):
            parts = name.strip(".").split(".")
            prefixes = [".".join(parts[:length]) for length in range(len(parts), 1, -1)]
            other = next((prefix for prefix in prefixes if prefix in known), None)
            if other not in (None, package):
                graph.setdefault(package, defaultdict(set))[other].add(path.name)
    return graph


def python_modules() -> dict[str, Path]:
    """Returns the modules of the package by name."""
    return {
        ".".join(path.relative_to(PYTHON).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (PYTHON / "cleancut").rglob("*.py")
    }


def imports_of(path: Path) -> Iterator[str]:
    """Returns the imports of a module, including those in functions, without those for type
    checkers.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))


def package_of(name: str, modules: Mapping[str, Path]) -> str:
    """Returns the package of a module, or a top-level module itself."""
    parent = name.rpartition(".")[0]
    return name if modules[name].name == "__init__.py" or parent == "cleancut" else parent


def python_graph(*, of_packages: bool) -> Graph:
    """Modules of the Python side, or their packages, by imports.

    Args:
        of_packages: whether the nodes are packages; modules at the top level are nodes too.
            `__init__` modules are none then: they import what users of the package see.
    """
    modules = python_modules()
    graph: dict[str, dict[str, set[str]]] = {}
    for name, path in modules.items():
        if of_packages and path.name == "__init__.py":
            continue
        for imported in imports_of(path):
            parts = imported.split(".")
            prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
            other = next((prefix for prefix in prefixes if prefix in modules), None)
            if other is None:
                continue
            pair = (name, other)
            if of_packages:
                pair = (package_of(name, modules), package_of(other, modules))
            if pair[0] != pair[1]:
                graph.setdefault(pair[0], defaultdict(set))[pair[1]].add(path.name)
    return graph


def test_scala_packages_have_no_cycle() -> None:
    graph = scala_graph()
    assert len(graph) > 20
    assert dependencies_in_cycle(graph) == []


@pytest.mark.parametrize("of_packages", [False, True], ids=["modules", "packages"])
def test_python_has_no_cycle(of_packages: bool) -> None:
    graph = python_graph(of_packages=of_packages)
    assert len(graph) > 10
    assert dependencies_in_cycle(graph) == []


def test_a_cycle_is_found() -> None:
    graph = {"a": {"b": {"A.scala"}}, "b": {"c": {"B.scala"}}, "c": {"a": {"C.scala"}, "d": set()}}
    assert sorted(set(find_cycle(graph))) == ["a", "b", "c"]
    assert len(dependencies_in_cycle(graph)) == 3
    assert find_cycle({"a": {"b": set()}, "b": {"c": set()}}) == []
    assert scala_code('val name = "io.cleancut.A" // io.cleancut.B\n/* x */').strip() == (
        'val name = ""'
    )


def test_no_folder_of_sources_has_too_many_files() -> None:
    roots = [*(ROOT / "jvm").glob("*/src/main"), PYTHON / "cleancut"]
    files = (path for root in roots for path in root.rglob("*.*") if path.suffix in SOURCE_SUFFIXES)
    sizes = Counter(path.parent.relative_to(ROOT) for path in files)
    assert {folder.parts[1] for folder in sizes} >= {"bench", "cleancut", "core", "spark"}
    assert {str(folder): size for folder, size in sizes.items() if size > MAX_FILES} == {}
