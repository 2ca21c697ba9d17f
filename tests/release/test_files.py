"""The content of the files of a release."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cleancut._session.installation import SPARK
from tests.support.documented import ROOT, blocks, commands
from tests.support.patience import PATIENCE_S

RELEASING = "docs/project/releasing.md"
ARTIFACTS = ("cleancut-common", *(f"cleancut-spark-{line}" for line in SPARK))
MAX_WHEEL_BYTES = 25_000_000
POM = "{*}"


def names_of_jars(release: str) -> set[str]:
    return {f"{artifact}_2.13-{release}.jar" for artifact in ARTIFACTS}


def in_maven(dist: Path, artifact: str, release: str) -> Path:
    return dist / "maven" / "io" / "cleancut" / f"{artifact}_2.13" / release


def test_the_wheel_has_each_jar_once_and_is_small(wheel: Path, release: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = message_from_bytes(archive.read(f"cleancut-{release}.dist-info/METADATA"))
    jars = [name for name in names if name.endswith(".jar")]
    assert sorted(jars) == sorted(f"cleancut/jars/{name}" for name in names_of_jars(release))
    assert {name.partition("/")[0] for name in names} == {
        "cleancut", f"cleancut-{release}.dist-info",
    }  # fmt: skip
    assert f"cleancut-{release}.dist-info/licenses/LICENSE" in names
    assert wheel.stat().st_size < MAX_WHEEL_BYTES
    assert (metadata["Version"], metadata["License-Expression"]) == (release, "Apache-2.0")


def test_the_source_distribution_has_the_sources_of_the_jars(dist: Path, release: str) -> None:
    with tarfile.open(dist / f"cleancut-{release}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"python/cleancut/jars/{name}" for name in names_of_jars(release)} <= names
    assert {"build.sbt", "project/Versions.scala", "hatch_build.py", "LICENSE"} <= names
    assert "jvm/spark/src/main/scala/io/cleancut/CleancutStateStoreProvider.scala" in names
    assert not any(name.startswith(("tests/", "jvm/spark/src/test/")) for name in names)


@pytest.mark.parametrize("artifact", ARTIFACTS)
def test_maven_has_the_jars_of_the_wheel_with_sources_and_pages(
    artifact: str, dist: Path, wheel: Path, release: str
) -> None:
    directory, name = in_maven(dist, artifact, release), f"{artifact}_2.13-{release}"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"cleancut/jars/{name}.jar") == (directory / f"{name}.jar").read_bytes()
    with zipfile.ZipFile(directory / f"{name}-sources.jar") as sources:
        assert sum(entry.endswith(".scala") for entry in sources.namelist()) > 100
    with zipfile.ZipFile(directory / f"{name}-javadoc.jar") as pages:
        assert "index.html" in pages.namelist()
    digest = hashlib.sha1((directory / f"{name}.jar").read_bytes()).hexdigest()
    assert (directory / f"{name}.jar.sha1").read_text() == digest


def test_all_jars_have_the_digest_of_one_build(dist: Path, release: str) -> None:
    """The jars refused each other if the digest was computed at two moments of the build."""
    said = set()
    for artifact in ARTIFACTS:
        jar = in_maven(dist, artifact, release) / f"{artifact}_2.13-{release}.jar"
        name = "common" if artifact == "cleancut-common" else "line"
        with zipfile.ZipFile(jar) as archive:
            lines = archive.read(f"META-INF/cleancut/{name}.properties").decode().splitlines()
        said |= {line for line in lines if line.startswith("common=")}
    assert len(said) == 1
    assert re.fullmatch(rf"common={re.escape(release)} [0-9a-f]{{16}}", said.pop())


@pytest.mark.parametrize("artifact", ARTIFACTS)
def test_a_pom_requires_nothing_that_is_shaded(artifact: str, dist: Path, release: str) -> None:
    file = in_maven(dist, artifact, release) / f"{artifact}_2.13-{release}.pom"
    pom = ElementTree.parse(file).getroot()
    dependencies = [
        tuple(
            dependency.findtext(f"{POM}{field}") for field in ("groupId", "artifactId", "version")
        )
        for dependency in pom.findall(f".//{POM}dependency")
    ]
    common = ("io.cleancut", "cleancut-common_2.13", release)
    assert dependencies == ([] if artifact == "cleancut-common" else [common])
    assert pom.findtext(f"{POM}name") == artifact
    assert "Structured Streaming" in str(pom.findtext(f"{POM}description"))
    assert pom.findtext(f"{POM}licenses/{POM}license/{POM}name") == "Apache-2.0"
    assert pom.find(f"{POM}repositories") is None


def test_the_bill_of_materials_names_all_that_is_shaded(
    dist: Path, wheel: Path, release: str
) -> None:
    bill = json.loads((dist / f"cleancut-{release}.cdx.json").read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    parts = {part["bom-ref"]: part for part in bill["components"]}
    with zipfile.ZipFile(wheel) as archive:
        jar = archive.open(f"cleancut/jars/cleancut-common_2.13-{release}.jar")
        with zipfile.ZipFile(jar) as common:
            folder = "META-INF/software.amazon.awssdk/"
            names = [name for name in common.namelist() if name.startswith(folder)]
    modules = {name.split("/")[2] for name in names if name.endswith("version.properties")}
    assert {"s3", "sts", "sdk-core"} <= modules
    of_sdk = {ref.split("/")[2].partition("@")[0] for ref in parts if "awssdk" in ref}
    assert modules <= of_sdk
    for part in parts.values():
        if str(part["bom-ref"]).startswith("pkg:maven/"):
            assert part["licenses"][0]["license"]["id"] in ("Apache-2.0", "MIT-0")
            assert len(part["hashes"][0]["content"]) == 64
    required = {"pyspark", "py4j", "pyarrow", "zstandard"}
    assert {n for n in required if parts[f"pkg:pypi/{n}"].get("scope") == "required"} == required


def test_the_documented_task_makes_the_release(dist: Path, release: str) -> None:
    (command,) = commands(blocks(RELEASING, "sh")[1])
    assert command[:2] == ["make", "release"]
    menu = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"$({given.partition('=')[0]})" in menu for given in command[2:])
    assert {path.name for path in dist.iterdir()} - {"SHA256SUMS.asc"} == {
        *(f"cleancut-{release}-py3-none-any.whl", f"cleancut-{release}.tar.gz", "maven"),
        *(f"cleancut-{release}.cdx.json", "SHA256SUMS"),
    }
    page = (ROOT / RELEASING).read_text(encoding="utf-8")
    for name in ("py3-none-any.whl", ".tar.gz", "maven/", ".cdx.json", "SHA256SUMS.asc"):
        assert f"{name}`" in page


def test_the_sums_are_those_of_all_files(dist: Path) -> None:
    listed = (dist / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    files = [path for path in dist.rglob("*") if path.is_file()]
    assert len(listed) == sum(not path.name.startswith("SHA256SUMS") for path in files)


@pytest.mark.skipif(shutil.which("gpg") is None, reason="no gpg here")
def test_the_documented_checks_find_unsigned_files(dist: Path, tmp_path: Path) -> None:
    """Signed like in the task, with a key of the test."""
    keys, copy = tmp_path / "keys", tmp_path / "files" / "dist"
    keys.mkdir(mode=0o700)
    shutil.copytree(dist, copy)
    key = "releaser@example.org"

    def typed(command: str, cwd: Path) -> bool:
        variables = os.environ | {"GNUPGHOME": str(keys)}
        ended = subprocess.run(
            ["bash", "-c", command], cwd=cwd, env=variables, capture_output=True, timeout=PATIENCE_S
        )
        return ended.returncode == 0

    assert typed(f"gpg --batch --passphrase '' --quick-generate-key {key} ed25519 sign", copy)
    menu = (ROOT / "Makefile").read_text(encoding="utf-8")
    match = re.search(r"\$\(if \$\(KEY\),(gpg .*)\)$", menu, flags=re.MULTILINE)
    assert match is not None
    assert typed(match[1].replace("$(KEY)", key), copy.parent)
    signature, sums = blocks(RELEASING, "sh")[2].splitlines()
    assert typed(signature, copy)
    assert typed(sums, copy)
    (wheel,) = copy.glob("*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"0")
    assert not typed(sums, copy)
    (copy / "SHA256SUMS").write_text("", encoding="utf-8")
    assert not typed(signature, copy)
    assert typed("gpgconf --kill gpg-agent", copy)
