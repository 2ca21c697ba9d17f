"""`configure` sets the options of a builder, or reports all conflicts."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

import cleancut
from cleancut import RequestError
from cleancut._session import session, user_conf
from tests.unit.installations import Installation, install

JAR = "/opt/cleancut-spark-4.3_2.13-0.1.0.jar"
COMMON = "/opt/cleancut-common_2.13-0.1.0.jar"
JARS = f"{COMMON},{JAR}"
PROVIDER = "io.cleancut.CleancutStateStoreProvider"
PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
EXTENSION = "io.cleancut.CleancutExtensions"
EXTENSIONS = "spark.sql.extensions"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
PREFIX = "spark.sql.streaming.stateStore.cleancut."
ALWAYS = {EXTENSIONS: EXTENSION, MANAGER: "io.cleancut.CleancutCheckpointFileManager"}


@pytest.fixture(autouse=True)
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    monkeypatch.setattr(session, "jar_paths", lambda: (COMMON, JAR))
    # Tests of a notebook have imported it.
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert SparkContext._gateway is None, "another test of this process has started a JVM"
    yield install(tmp_path, monkeypatch)
    assert SparkContext._gateway is None, "configure must not start a JVM"


def builder(**confs: str) -> SparkSession.Builder:
    made = SparkSession.Builder()
    for key, value in confs.items():
        made.config(key, value)
    return made


def options(made: SparkSession.Builder) -> dict[str, Any]:
    return dict(made._options)


def refused(made: Any, error_id: str, **given: Any) -> str:
    before = options(made)
    with pytest.raises(RequestError) as raised:
        cleancut.configure(made, **given)
    assert raised.value.error_id == error_id
    assert options(made) == before, "a builder that was refused must stay as it was"
    return str(raised.value)


def test_jar_provider_and_extension_are_set_and_the_builder_is_returned() -> None:
    made = builder()
    assert cleancut.configure(made) is made
    assert options(made) == {"spark.jars": JARS, PROVIDER_KEY: PROVIDER, **ALWAYS}


def test_options_become_keys() -> None:
    made = cleancut.configure(builder(), compression_level=3, lock_acquire_timeout="10s")
    assert options(made)[f"{PREFIX}compressionLevel"] == "3"
    assert options(made)[f"{PREFIX}lockAcquireTimeout"] == "10s"


def test_cuts_are_a_key_and_the_file_manager_is_always_set() -> None:
    made = cleancut.configure(builder(), cuts=True)
    assert options(made) == {
        "spark.jars": JARS,
        PROVIDER_KEY: PROVIDER,
        **ALWAYS,
        f"{PREFIX}cuts": "true",
    }
    text = refused(builder(), "CLEANCUT_CONF_INVALID", cuts="sometimes")
    assert "cuts must be auto, true or false, not 'sometimes'" in text


@pytest.mark.parametrize("mode", ["unaligned", "auto"])
def test_unaligned_mode_is_refused_without_cuts(
    mode: Literal["unaligned", "auto"],
) -> None:
    """Such a query ran aligned without a warning."""
    text = refused(builder(), "CLEANCUT_CONF_INVALID", mode=mode, cuts=False)
    assert f"mode '{mode}' requires cuts, and cuts is False: set cuts=True" in text
    # A bucket always has cuts.
    for given in ({}, {"cuts": True}, {"cuts": "auto"}):
        assert options(cleancut.configure(builder(), mode=mode, **given))[f"{PREFIX}mode"] == mode
    cleancut.configure(builder(), mode="aligned", cuts=False)


def test_real_time_mode_replaces_the_provider() -> None:
    made = cleancut.configure(builder(), real_time_mode=True)
    assert options(made) == {
        "spark.jars": JARS,
        **ALWAYS,
        f"{PREFIX}realTimeMode": "true",
    }


def test_the_key_of_real_time_mode_replaces_the_provider(
    installation: Installation,
) -> None:
    key = f"{PREFIX}realTimeMode"
    expected = {"spark.jars": JARS, **ALWAYS, key: "true"}
    assert options(cleancut.configure(builder(**{key: "TRUE"}))) == expected
    installation.defaults(f"{key} true")
    assert options(cleancut.configure(builder())) == expected
    without = cleancut.configure(builder(), real_time_mode=False)
    assert options(without) == expected | {PROVIDER_KEY: PROVIDER, key: "false"}


def test_a_wrong_key_of_real_time_mode_is_refused() -> None:
    text = refused(builder(**{f"{PREFIX}realTimeMode": "yes"}), "CLEANCUT_CONF_INVALID")
    assert f"{PREFIX}realTimeMode must be true or false, not 'yes'" in text


def test_real_time_mode_is_refused_where_a_provider_is_named(installation: Installation) -> None:
    text = refused(cleancut.configure(builder()), "CLEANCUT_CONF_INVALID", real_time_mode=True)
    assert f"{PROVIDER_KEY} is set in the builder" in text
    installation.defaults(f"{PROVIDER_KEY} {PROVIDER}")
    text = refused(builder(), "CLEANCUT_CONF_INVALID", real_time_mode=True)
    assert f"{PROVIDER_KEY} is set in spark-defaults.conf" in text


def test_an_option_wins_over_the_key_that_was_set_before() -> None:
    made = builder(**{f"{PREFIX}compressionLevel": "99"})
    cleancut.configure(made, compression_level=3)
    assert options(made)[f"{PREFIX}compressionLevel"] == "3"


def test_jars_of_the_user_stay_first() -> None:
    made = cleancut.configure(builder(**{"spark.jars": "/a.jar,s3a://b/c.jar"}))
    assert options(made)["spark.jars"] == f"/a.jar,s3a://b/c.jar,{JARS}"


def test_each_jar_is_added_once() -> None:
    made = cleancut.configure(cleancut.configure(builder()))
    assert options(made)["spark.jars"] == JARS
    same = "hdfs://nn/lib/cleancut-spark-4.3_2.13-0.1.0.jar"
    made = cleancut.configure(builder(**{"spark.jars": same}))
    assert options(made)["spark.jars"] == f"{same},{COMMON}"


def test_jars_of_the_defaults_are_kept(installation: Installation) -> None:
    """A builder's spark.jars replaces the one in spark-defaults.conf."""
    installation.defaults("# comment\nspark.jars   /d.jar,/e.jar\nspark.x=1\n")
    assert options(cleancut.configure(builder()))["spark.jars"] == f"/d.jar,/e.jar,{JARS}"


def test_the_defaults_are_found_where_spark_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.jars: /d.jar", encoding="utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert options(cleancut.configure(builder()))["spark.jars"] == f"/d.jar,{JARS}"
    named = tmp_path / "my.conf"
    named.write_text("spark.jars = /n.jar", encoding="utf-8")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {named} pyspark-shell")
    assert options(cleancut.configure(builder()))["spark.jars"] == f"/n.jar,{JARS}"


@pytest.mark.parametrize(
    "arguments", ["--jars /a.jar", "--jars=/a.jar", "--conf spark.jars=/a.jar"]
)
def test_jars_in_submit_args_are_refused(arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{arguments} pyspark-shell")
    text = refused(builder(), "CLEANCUT_CONF_INVALID")
    assert f"PYSPARK_SUBMIT_ARGS has jars, which replace spark.jars: add {JARS}" in text


def test_jars_missing_in_submit_args_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars {JAR} pyspark-shell")
    assert f"spark.jars: add {COMMON} to them" in refused(builder(), "CLEANCUT_CONF_INVALID")


def test_jars_in_submit_args_with_ours_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars /a.jar,{JARS} pyspark-shell")
    assert options(cleancut.configure(builder()))["spark.jars"] == f"/a.jar,{JARS}"


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("com.example.A,com.example.B", f"com.example.A,com.example.B,{EXTENSION}"),
        (f"{EXTENSION},com.example.A", f"{EXTENSION},com.example.A"),
        (f"com.example.A, {EXTENSION}", f"com.example.A, {EXTENSION}"),
        ("com.example.A,", f"com.example.A,{EXTENSION}"),
        ("", EXTENSION),
    ],
)
def test_extensions_of_the_user_stay_first_and_ours_is_added_once(
    configured: str, expected: str
) -> None:
    made = cleancut.configure(builder(**{EXTENSIONS: configured}))
    assert options(made)[EXTENSIONS] == expected
    assert options(cleancut.configure(made))[EXTENSIONS] == expected


def test_extensions_of_defaults_and_submit_args_are_kept(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The builder's value replaces both in a session that this process starts."""
    installation.defaults(f"{EXTENSIONS} com.example.D\n")
    assert options(cleancut.configure(builder()))[EXTENSIONS] == f"com.example.D,{EXTENSION}"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--conf {EXTENSIONS}=com.example.S pyspark-shell")
    assert options(cleancut.configure(builder()))[EXTENSIONS] == f"com.example.S,{EXTENSION}"
    made = cleancut.configure(builder(**{EXTENSIONS: "com.example.B"}))
    assert options(made)[EXTENSIONS] == f"com.example.B,{EXTENSION}"


@pytest.mark.parametrize(
    "other",
    [
        "cleancut-spark-4.3_2.13-0.0.9.jar",
        "cleancut-spark-4.2_2.13-0.1.0.jar",
        "cleancut-common_2.13-0.0.9.jar",
    ],
)
def test_the_jar_of_another_release_or_line_is_refused(other: str) -> None:
    text = refused(builder(**{"spark.jars": other}), "CLEANCUT_CONF_INVALID")
    assert f"spark.jars has {other}" in text


def test_a_foreign_provider_is_refused_by_name(installation: Installation) -> None:
    rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    text = refused(builder(**{PROVIDER_KEY: rocksdb}), "CLEANCUT_CONF_INVALID")
    assert f"{PROVIDER_KEY} is {rocksdb} in the builder" in text
    installation.defaults(f"{PROVIDER_KEY} {rocksdb}")
    assert f"{rocksdb} in spark-defaults.conf" in refused(builder(), "CLEANCUT_CONF_INVALID")


@pytest.mark.parametrize("key", [MANAGER, f"spark.hadoop.{MANAGER}"])
def test_a_foreign_file_manager_is_refused_by_name(key: str) -> None:
    text = refused(builder(**{key: "com.example.Manager"}), "CLEANCUT_CONF_INVALID")
    assert f"{key} is com.example.Manager in the builder" in text
    assert "remove it there" in text


def test_the_own_file_manager_may_be_named_before() -> None:
    named = builder(**{MANAGER: "io.cleancut.CleancutCheckpointFileManager"})
    assert options(cleancut.configure(named))[MANAGER] == ALWAYS[MANAGER]


def test_all_problems_are_in_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"-c {MANAGER}=com.example.M pyspark-shell")
    made = builder(**{PROVIDER_KEY: "com.example.P", f"{PREFIX}compression": "1"})
    text = refused(made, "CLEANCUT_CONF_INVALID", compression_level=99, lock_acquire_timeout="soon")
    expected = ["compression_level", "'soon'", "com.example.P", f"{PREFIX}compression is not a key"]
    assert all(part in text for part in [*expected, "com.example.M in PYSPARK_SUBMIT_ARGS"])


@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        ({"SPARK_REMOTE": "sc://host"}, "SPARK_REMOTE is set"),
        ({"SPARK_CONNECT_MODE_ENABLED": "1"}, "SPARK_CONNECT_MODE_ENABLED is set"),
        ({"SPARK_API_MODE": "connect"}, "spark.api.mode is connect"),
        ({"SPARK_CONNECT_MODE": "1"}, "spark.api.mode is connect"),
    ],
)
def test_an_environment_of_spark_connect_is_refused(
    variable: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    text = refused(builder(), "CLEANCUT_CONNECT_UNSUPPORTED")
    assert reason in text
    assert "`cleancut conf`" in text


@pytest.mark.parametrize("confs", [{"spark.remote": "sc://host"}, {"spark.api.mode": "Connect"}])
def test_a_builder_for_spark_connect_is_refused(confs: dict[str, str]) -> None:
    refused(builder(**confs), "CLEANCUT_CONNECT_UNSUPPORTED")


def test_the_builder_of_spark_connect_is_refused() -> None:
    class Builder(SparkSession.Builder):
        __module__ = "pyspark.sql.connect.session"

    assert "that of Spark Connect" in refused(Builder(), "CLEANCUT_CONNECT_UNSUPPORTED")


def test_an_explicit_classic_mode_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_API_MODE", "connect")
    cleancut.configure(builder(**{"spark.api.mode": "classic"}))


def test_wrong_versions_are_refused(installation: Installation) -> None:
    installation.spark(version="4.0.0")
    assert "Spark 4.0.0" in refused(builder(), "CLEANCUT_VERSION_UNSUPPORTED")


@pytest.mark.parametrize("wrong", [None, "local[1]", SparkSession, SparkSession.Builder])
def test_an_argument_other_than_a_builder_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"SparkSession\.builder"):
        cleancut.configure(wrong)


def test_all_options_are_keywords_that_need_not_be_given() -> None:
    _, *keywords = inspect.signature(cleancut.configure).parameters.values()
    assert keywords
    assert {p.kind for p in keywords} == {inspect.Parameter.KEYWORD_ONLY}
    assert {p.default for p in keywords} == {...}


class Loader:
    """The class loader of a JVM, as py4j exposes it; it may accept jars."""

    def __init__(self, jar: str | None, *, takes: bool) -> None:
        self.jar = jar
        self.takes = takes

    def loadClass(self, name: str) -> Any:  # noqa: N802  # the name in Java
        if self.jar is None or name != PROVIDER:
            raise Py4JJavaError("ClassNotFoundException", JavaException())
        location = SimpleNamespace(getPath=lambda: self.jar)
        source = SimpleNamespace(getLocation=lambda: location)
        return SimpleNamespace(
            getProtectionDomain=lambda: SimpleNamespace(getCodeSource=lambda: source)
        )

    def addURL(self, jar: str) -> None:  # noqa: N802
        if not self.takes:
            raise Py4JError("Method addURL([]) does not exist")
        self.jar = jar


class JavaException:
    _target_id = "o1"
    _gateway_client = None


class File:
    def __init__(self, path: str) -> None:
        self.path = path

    def toURI(self) -> "File":  # noqa: N802
        return self

    def toURL(self) -> str:  # noqa: N802
        return self.path


def jvm_of(loader: Loader, java: str = "17") -> SimpleNamespace:
    """The parts of py4j's view of a JVM that `configure` uses."""
    thread = SimpleNamespace(getContextClassLoader=lambda: loader)
    lang = SimpleNamespace(
        System=SimpleNamespace(getProperty=lambda _: java),
        Thread=SimpleNamespace(currentThread=lambda: thread),
    )
    return SimpleNamespace(java=SimpleNamespace(lang=lang, io=SimpleNamespace(File=File)))


def in_jvm(monkeypatch: pytest.MonkeyPatch, jvm: SimpleNamespace) -> None:
    monkeypatch.setattr(session, "running_jvm", lambda: jvm)
    monkeypatch.setattr(
        session, "user_conf", lambda given, *_: user_conf.UserConf({"the builder": given})
    )


def test_a_jvm_that_accepts_no_jar_is_refused_with_the_start_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_jvm(monkeypatch, jvm_of(Loader(None, takes=False)))
    text = refused(builder(), "CLEANCUT_SESSION_RUNNING")
    assert "not on its class path" in text
    assert f"--jars {JARS} --conf spark.sql.extensions={EXTENSION}" in text
    assert "$SPARK_HOME/jars" in text


@pytest.mark.parametrize("jar", [None, JAR, "/opt/spark/jars/" + JAR.rpartition("/")[2]])
def test_a_jvm_without_the_jar_gets_it(jar: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = Loader(jar, takes=jar is None)
    in_jvm(monkeypatch, jvm_of(loader))
    # Executors fetch it from there, wherever the driver has it from.
    assert options(cleancut.configure(builder()))["spark.jars"] == JARS
    assert loader.jar == (jar or JAR)


def test_a_jar_of_another_release_on_the_class_path_is_refused(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = installation.spark_home / "jars" / "cleancut-spark-4.3_2.13-0.0.9.jar"
    other.touch()
    text = refused(builder(), "CLEANCUT_CONF_INVALID")
    assert f"{other} is on the class path" in text
    assert f"replace it by {COMMON} and {JAR}" in text
    other.unlink()
    in_jvm(monkeypatch, jvm_of(Loader("/x/cleancut-spark-4.2_2.13-0.1.0.jar", takes=True)))
    assert "/x/cleancut-spark-4.2" in refused(builder(), "CLEANCUT_CONF_INVALID")


def test_a_jar_in_an_image_without_the_other_is_refused(installation: Installation) -> None:
    """Spark's own class loader does not search `spark.jars`."""
    image = installation.spark_home / "jars"
    (image / Path(JAR).name).touch()
    text = refused(builder(), "CLEANCUT_CONF_INVALID")
    assert f"add {COMMON} to them" in text
    (image / Path(COMMON).name).touch()
    assert options(cleancut.configure(builder()))["spark.jars"] == JARS


def test_an_old_java_of_a_running_jvm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "running_jvm", lambda: jvm_of(Loader(JAR, takes=True), java="11"))
    assert "Java 11" in refused(builder(), "CLEANCUT_VERSION_UNSUPPORTED")
