"""The provider with only its class name and its jar, without `configure` and the package."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cleancut
from cleancut._provider import PROVIDER_CLASS, PROVIDER_KEY
from cleancut._session.class_path import listed
from cleancut._session.installation import spark_line
from cleancut._session.options import PREFIX
from cleancut._session.settings import (
    EXTENSION_CLASS,
    EXTENSIONS_KEY,
    FILE_MANAGER_CLASS,
    FILE_MANAGER_KEY,
)
from tests.support.documented import ROOT
from tests.support.lines import OTHERS
from tests.support.patience import PATIENCE_S
from tests.support.tiers import long

pytestmark = pytest.mark.spark

TIMEOUT_S = PATIENCE_S
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
settings, (home, location) = json.loads(sys.argv[1]), sys.argv[2:]
builder = SparkSession.builder.master("local[2]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
counts = spark.readStream.schema("k int").json(home + "/in").groupBy("k").count()
query = counts.writeStream.outputMode("update").format("noop")
query = query.option("checkpointLocation", location).trigger(availableNow=True).start()
query.awaitTermination()
rows = spark.read.format("statestore").load(location)
state = {r.key.k: r.value["count"] for r in rows.collect()}
print("STATE", json.dumps(state))
"""


def run(home: Path, **settings: str) -> dict[str, int]:
    """Returns the state after one more run in a separate process."""
    ended = attempt(home, **settings)
    assert ended.returncode == 0, ended.stderr
    (line,) = (line for line in ended.stdout.splitlines() if line.startswith("STATE "))
    counts: dict[str, int] = json.loads(line.removeprefix("STATE "))
    return counts


def attempt(
    home: Path, location: str | None = None, **settings: str
) -> "subprocess.CompletedProcess[str]":
    plain = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "3",
    }
    return subprocess.run(
        [
            *(sys.executable, "-c", SCRIPT, json.dumps(plain | settings), str(home)),
            location or f"{home}/checkpoint",
        ],
        env={k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def write(home: Path, name: str, keys: list[int]) -> None:
    (home / "in").mkdir(exist_ok=True)
    (home / "in" / name).write_text("\n".join(json.dumps({"k": key}) for key in keys))


@long
def test_class_name_and_jars_suffice_for_a_query(tmp_path: Path) -> None:
    jar = {"spark.jars": listed(cleancut.jar_paths())}
    write(tmp_path, "a.json", [1, 1, 2])
    assert run(tmp_path, **jar, **{PROVIDER_KEY: PROVIDER_CLASS}) == {"1": 2, "2": 1}
    assert cleancut.Checkpoint(tmp_path / "checkpoint").verify().ok
    # Spark has recorded the class in the checkpoint, so a restart needs only the jar.
    write(tmp_path, "b.json", [2, 3])
    assert run(tmp_path, **jar) == {"1": 2, "2": 2, "3": 1}
    assert cleancut.Checkpoint(tmp_path / "checkpoint").state(0, version=2).num_rows == 3


@long
@pytest.mark.parametrize(
    "how",
    [
        pytest.param({PROVIDER_KEY: PROVIDER_CLASS}, id="provider", marks=long),
        pytest.param({EXTENSIONS_KEY: EXTENSION_CLASS}, id="extension"),
    ],
)
@pytest.mark.parametrize("other", OTHERS)
def test_the_jar_for_another_spark_is_refused(
    other: str, how: dict[str, str], tmp_path: Path
) -> None:
    write(tmp_path, "a.json", [1])
    jars = listed(cleancut.jar_paths()).replace(f"spark-{spark_line()}_", f"spark-{other}_")
    ended = attempt(tmp_path, **{"spark.jars": jars}, **how)
    assert ended.returncode != 0
    refusal = (
        rf"\[CLEANCUT_VERSION_UNSUPPORTED\] .*This jar is cleancut-spark-{other}, but Spark is"
    )
    assert re.search(refusal, ended.stderr)
    assert f"Use cleancut-spark-{spark_line()}." in ended.stderr


WAYS_IN = {
    "provider": {PROVIDER_KEY: PROVIDER_CLASS},
    "extension": {EXTENSIONS_KEY: EXTENSION_CLASS},
    "files": {FILE_MANAGER_KEY: FILE_MANAGER_CLASS},
}


def of_another_build(jar: Path, to: Path) -> Path:
    """Returns a jar with another release in its manifest."""
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(to / jar.name, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename == "META-INF/cleancut/common.properties":
                content = b"common=0.0.9 0123456789abcdef\n"
            new.writestr(entry, content)
    return to / jar.name


@long
@pytest.mark.parametrize("way", WAYS_IN)
def test_the_jar_of_a_version_requires_the_shared_jar_of_its_build(
    way: str, tmp_path: Path
) -> None:
    """Otherwise a query fails in the middle with a NoSuchMethodError."""
    write(tmp_path, "a.json", [1])
    common, ours = cleancut.jar_paths()
    alone = attempt(tmp_path, **{"spark.jars": ours}, **WAYS_IN[way])
    assert alone.returncode != 0
    assert "[CLEANCUT_VERSION_UNSUPPORTED] This release of Cleancut does" in alone.stderr
    assert "is missing." in alone.stderr
    other = of_another_build(Path(common), tmp_path)
    ended = attempt(tmp_path, **{"spark.jars": f"{other},{ours}"}, **WAYS_IN[way])
    assert ended.returncode != 0
    assert "[CLEANCUT_VERSION_UNSUPPORTED]" in ended.stderr
    assert "and the one on the class path is 0.0.9 0123456789abcdef, in " in ended.stderr
    assert f"/{other.name}." in ended.stderr


@long
def test_a_session_without_jar_or_settings_stops_and_loses_nothing(tmp_path: Path) -> None:
    """docs/get-started/starting-spark.md describes the remedy."""
    jar = {"spark.jars": listed(cleancut.jar_paths())}
    cuts = {PROVIDER_KEY: PROVIDER_CLASS, FILE_MANAGER_KEY: FILE_MANAGER_CLASS}
    cuts[f"{PREFIX}cuts"] = "true"
    write(tmp_path, "a.json", [1, 1, 2])
    assert run(tmp_path, **jar, **cuts) == {"1": 2, "2": 1}
    write(tmp_path, "b.json", [2, 3])
    without = attempt(tmp_path)
    assert without.returncode != 0
    assert re.search(rf"terminated with exception: .*{re.escape(PROVIDER_CLASS)}", without.stderr)
    on_s3 = attempt(tmp_path, "s3://bucket/counts")
    assert on_s3.returncode != 0
    assert 'No FileSystem for scheme "s3"' in on_s3.stderr
    with_jar = attempt(tmp_path, **jar)
    assert with_jar.returncode != 0
    assert "[CLEANCUT_CUTS_REQUIRED]" in with_jar.stderr
    page = (ROOT / "docs/get-started/starting-spark.md").read_text(encoding="utf-8")
    assert PROVIDER_CLASS in page
    assert 'No FileSystem for scheme "s3"' in page
    assert "CLEANCUT_CUTS_REQUIRED" in page
    assert run(tmp_path, **jar, **cuts) == {"1": 2, "2": 2, "3": 1}
