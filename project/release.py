"""Metadata of the files of a release; `make release` runs it in `.venv-release`.

python project/release.py bom dist          a bill of materials next to the wheel
python project/release.py sums dist         SHA256SUMS of all files
python project/release.py compare A B       fails if two builds differ in a byte
"""

import hashlib
import os
import sys
import tomllib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
SUMS = "SHA256SUMS"
# Names of licences in the descriptions of modules; any other one fails the build.
LICENCES = {"Apache License, Version 2.0": "Apache-2.0", "MIT-0": "MIT-0"}
# Parts of the modules that are no separate modules.
BUNDLED = [("Public Suffix List", "MPL-2.0", "org.apache.httpcomponents.client5:httpclient5")]
OF_DEVELOPERS = {"demo", "test", "docs", "dev", "release"}


def main() -> int:
    """Runs one of the commands."""
    command, *paths = sys.argv[1:]
    first, *others = map(Path, paths)
    if command == "bom":
        write_bom(first)
    elif command == "sums":
        write_sums(first)
    else:
        return compare(first, *others)
    return 0


def digests(root: Path) -> dict[str, str]:
    """Returns SHA-256 of all files by their paths in a directory, except the sums themselves."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.startswith(SUMS)
    }


def write_sums(root: Path) -> None:
    """Writes the sums in the format of `sha256sum --check`."""
    lines = [f"{digest}  {name}\n" for name, digest in digests(root).items()]
    (root / SUMS).write_text("".join(lines), encoding="utf-8")


def compare(one: Path, other: Path) -> int:
    """Prints the differing files, and the number of equal ones."""
    left, right = digests(one), digests(other)
    differing = [name for name in sorted({*left, *right}) if left.get(name) != right.get(name)]
    for name in differing:
        print(f"differs: {name}")
    print(f"{len(left) - len(differing)} of {len(left)} files of two builds are equal.")
    return 1 if differing or not left else 0


def write_bom(root: Path) -> None:
    """Writes CycloneDX in JSON: the modules in the jars, and the requirements of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    whole = component(
        PackageURL("pypi", None, project["name"], project["version"]), project["license"]
    )
    parts = [*shaded(), *bundled(), *dependencies(project)]
    # Determined by the release, and not by time and random numbers of a build.
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, str(whole.purl)), components=parts)
    bom.metadata.component = whole
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    bom.register_dependency(whole, parts)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise SystemExit(f"The bill of materials is no CycloneDX: {problem}")
    name = f"{project['name']}-{project['version']}.cdx.json"
    (root / name).write_text(text + "\n", encoding="utf-8")


def component(purl: PackageURL, licence: str | None, **more: Any) -> Component:
    """Returns a library with its name in a package registry."""
    return Component(
        type=ComponentType.LIBRARY,
        name=purl.name,
        group=purl.namespace,
        version=purl.version,
        purl=purl,
        bom_ref=str(purl),
        licenses=licences(licence),
        **more,
    )


def licences(spdx: str | None) -> list[Any]:
    """Returns licences in the form of a bill of materials."""
    return [] if spdx is None else [LicenseFactory().make_with_id(spdx)]


def shaded() -> Iterator[Component]:
    """Yields the modules that sbt has added to the shared jar."""
    table = ROOT / "target" / "shaded-modules.tsv"
    for line in table.read_text(encoding="utf-8").splitlines():
        group, name, version, sha256, licensed = line.split("\t")
        licence = LICENCES.get(licensed.partition(" <")[0])
        if licence is None:
            raise SystemExit(
                f"{group}:{name} has the licence {licensed!r}, which is none of LICENCES"
            )
        yield component(
            PackageURL("maven", group, name, version),
            licence,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
            properties=[Property(name="cleancut:inside", value="cleancut-common")],
        )


def bundled() -> Iterator[Component]:
    """Yields third-party data in the modules."""
    for name, licence, inside in BUNDLED:
        yield Component(
            type=ComponentType.DATA,
            name=name,
            bom_ref=name,
            licenses=licences(licence),
            properties=[Property(name="cleancut:inside", value=inside)],
        )


def dependencies(project: dict[str, Any]) -> Iterator[Component]:
    """Yields the dependencies that users install, and those of the extras for users."""
    extras = project["optional-dependencies"]
    of_users = {text for name in extras if name not in OF_DEVELOPERS for text in extras[name]}
    scopes = [(text, ComponentScope.REQUIRED) for text in project["dependencies"]]
    scopes += [(text, ComponentScope.OPTIONAL) for text in sorted(of_users)]
    for text, scope in scopes:
        wanted = Requirement(text)
        yield component(
            PackageURL("pypi", None, wanted.name),
            None,
            scope=scope,
            properties=[Property(name="cleancut:versions", value=str(wanted.specifier))],
        )


if __name__ == "__main__":
    sys.exit(main())
