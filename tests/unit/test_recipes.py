"""The files of `recipes.md` that no test can run: settings, names and permissions."""

import json
import re
from typing import Any

import yaml

from cleancut._provider import PROVIDER_CLASS
from cleancut._session.options import PREFIX
from cleancut._session.settings import conf_problems, confs_of
from tests.support.documented import ROOT, blocks

PAGE = "docs/use/recipes.md"
REQUESTS = "jvm/core/src/main/scala/io/cleancut/objectstore/s3/S3Requests.scala"
# The permission of each request, by the service authorization reference of AWS.
PERMISSIONS = {
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "CompleteMultipartUpload": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "DeleteObjects": "s3:DeleteObject",
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListObjectsV2": "s3:ListBucket",
    "PutObject": "s3:PutObject",
    "UploadPart": "s3:PutObject",
}
BYTES = {"g": 1 << 30, "Gi": 1 << 30}


def test_the_policy_permits_the_requests_of_the_client() -> None:
    (policy,) = map(json.loads, blocks(PAGE, "json"))
    source = (ROOT / REQUESTS).read_text(encoding="utf-8")
    sent = {*re.findall(r"\): (\w+)Request\b", source)}
    assert sent <= PERMISSIONS.keys()
    permitted: dict[str, str] = {}
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        permitted |= dict.fromkeys(statement["Action"], statement["Resource"])
    keys = {action for action in permitted if action.startswith("kms:")}
    assert permitted.keys() - keys == {PERMISSIONS[request] for request in PERMISSIONS}
    for action, resource in permitted.items():
        is_of_bucket = action in ("s3:ListBucket", "s3:ListBucketMultipartUploads")
        assert resource.endswith("/*") == (not is_of_bucket and action not in keys)


def documents() -> dict[str, dict[str, Any]]:
    (text,) = blocks(PAGE, "yaml")
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def settings() -> dict[str, str]:
    lines = documents()["ConfigMap"]["data"]["spark-defaults.conf"].splitlines()
    pairs = [line.split(maxsplit=1) for line in lines if not line.startswith("#")]
    assert len(pairs) == len({key for key, _ in pairs})
    return {key: value.strip() for key, value in pairs}


def size(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()  # type: ignore[union-attr]
    return int(number) * BYTES[unit]


def test_the_job_has_the_settings_of_cleancut() -> None:
    conf = settings()
    assert confs_of({"mode": "unaligned"}).items() <= conf.items()
    assert conf["spark.sql.streaming.stateStore.providerClass"] == PROVIDER_CLASS
    assert [*conf_problems(conf)] == []
    assert [*conf_problems(conf | {f"{PREFIX}noSuchKey": "1"})] != []
    assert size(conf["spark.executor.memoryOverhead"]) > size(conf[f"{PREFIX}maxOffHeapMemory"])


def test_the_names_of_the_job_match() -> None:
    by_kind, conf = documents(), settings()
    assert {*by_kind} == {"ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Job"}
    pod = by_kind["Job"]["spec"]["template"]["spec"]
    (driver,) = pod["containers"]
    account = by_kind["ServiceAccount"]["metadata"]["name"]
    assert pod["serviceAccountName"] == account
    assert conf["spark.kubernetes.authenticate.executor.serviceAccountName"] == account
    assert by_kind["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", "name": account}]
    assert by_kind["RoleBinding"]["roleRef"]["name"] == by_kind["Role"]["metadata"]["name"]
    assert driver["image"] == conf["spark.kubernetes.container.image"]
    # A Job never has two pods of one query by intention.
    assert (by_kind["Job"]["spec"]["parallelism"], pod["restartPolicy"]) == (1, "Never")
    environment = {entry["name"]: entry for entry in driver["env"]}
    (mount,) = driver["volumeMounts"]
    (volume,) = pod["volumes"]
    assert mount["mountPath"] == environment["SPARK_CONF_DIR"]["value"]
    assert (volume["name"], volume["configMap"]["name"]) == (
        mount["name"],
        by_kind["ConfigMap"]["metadata"]["name"],
    )
    for name in re.findall(r"\$\((\w+)\)", " ".join(driver["args"])):
        assert name in environment
    assert size(driver["resources"]["limits"]["memory"]) > size(conf["spark.driver.memory"])
