"""Packages depend on each other in one direction, in both languages."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
SCALA_SOURCES = ("jvm/core/src/main", "jvm/spark/src/main")

Graph = Mapping[str, Mapping[str, set[str]]]


def strongly_connected(graph: Graph) -> list[list[str]]:
    """The cycles of a graph: its strongly connected components of two nodes or more.

    Source: Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1 (1972).
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, {}):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            components.append(sorted(stack[at:]))
            del stack[at:]

    for node in list(graph):
        if node not in index:
            visit(node)
    return [component for component in components if len(component) > 1]


def cycles_of(graph: Graph) -> list[str]:
    """For each cycle, its members and the files behind each dependency within it."""
    return [
        "\n".join(
            [
                f"cycle of {', '.join(members)}:",
                *(
                    f"  {one} -> {other}: {', '.join(sorted(graph[one][other]))}"
                    for one in members
                    for other in graph.get(one, {})
                    if other in members
                ),
            ]
        )
        for members in strongly_connected(graph)
    ]


def scala_code(text: str) -> str:
    """Without comments and string literals, whose names are no dependencies."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r'""".*?"""|"(?:[^"\\\n]|\\.)*"', '""', text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", " ", text)


def scala_graph() -> Graph:
    """Packages of the JVM side, by the qualified names in their sources."""
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
    """The modules of the package, by name."""
    return {
        ".".join(path.relative_to(PYTHON).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (PYTHON / "cleancut").rglob("*.py")
    }


def imports_of(path: Path) -> Iterator[str]:
    """What a module imports, also within functions; not what only type checkers import."""
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
    """The package of a module, or a module at the top level itself."""
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
    assert cycles_of(graph) == [], "\n".join(cycles_of(graph))


@pytest.mark.parametrize("of_packages", [False, True], ids=["modules", "packages"])
def test_python_has_no_cycle(of_packages: bool) -> None:
    graph = python_graph(of_packages=of_packages)
    assert len(graph) > 10
    assert cycles_of(graph) == [], "\n".join(cycles_of(graph))


def test_a_cycle_is_found() -> None:
    graph = {"a": {"b": {"A.scala"}}, "b": {"c": {"B.scala"}}, "c": {"a": {"C.scala"}, "d": set()}}
    assert strongly_connected(graph) == [["a", "b", "c"]]
    assert strongly_connected({"a": {"b": set()}, "b": {"c": set()}}) == []
    assert scala_code('val name = "io.cleancut.A" // io.cleancut.B\n/* x */').strip() == (
        'val name = ""'
    )
