"""Fake installations of Spark and Java, so that no test starts one."""

from dataclasses import dataclass
from pathlib import Path

import pytest

VARIABLES = (
    "MASTER",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_API_MODE",
    "SPARK_CONF_DIR",
    "SPARK_CONNECT_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_REMOTE",
)


@dataclass(frozen=True)
class Installation:
    """A Spark and a Java installation that the environment points to."""

    spark_home: Path
    java_home: Path

    def spark(self, version: str = "4.3.0", scala: str = "2.13", library: str = "2.13.18") -> None:
        """Replaces the versions of Spark and Scala."""
        jars = self.spark_home / "jars"
        jars.mkdir(parents=True, exist_ok=True)
        for jar in jars.iterdir():
            jar.unlink()
        (jars / f"spark-core_{scala}-{version}.jar").touch()
        (jars / f"scala-library-{library}.jar").touch()

    def java(self, answer: str, status: int = 0) -> None:
        """Makes `java -version` print this text."""
        command = self.java_home / "bin" / "java"
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{answer}\nEND\nexit {status}\n")
        command.chmod(0o755)

    def defaults(self, text: str) -> None:
        """Writes spark-defaults.conf."""
        conf = self.spark_home / "conf"
        conf.mkdir(exist_ok=True)
        (conf / "spark-defaults.conf").write_text(text, encoding="utf-8")


def install(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Points the environment to a supported installation, which tests then change."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    installation = Installation(directory / "spark", directory / "java")
    monkeypatch.setenv("SPARK_HOME", str(installation.spark_home))
    monkeypatch.setenv("JAVA_HOME", str(installation.java_home))
    installation.spark()
    installation.java('openjdk version "17.0.15" 2025-04-15')
    return installation
