"""A test runs each fenced block of the documentation, except the blocks in `NOT_RUN`."""

import re
from collections import Counter
from pathlib import Path

import pytest

from cleancut._cli import main as _cli
from tests.support.documented import Block, fenced
from tests.unit.test_docs import PAGES
from tests.unit.test_tidy import ROOT, named

README = "tests/spark/test_readme.py"
START = f"{README}::test_the_quick_start_prints_what_its_page_shows"
TASKS = f"{README}::test_named_tasks_exist_in_the_makefile"
QUERY = f"{README}::test_readme_query_and_every_command_on_its_checkpoint_run"
TRIAL = f"{README}::test_a_query_on_rocksdb_is_tried_on_cleancut_and_returns"
ERRORS = (
    "tests/spark/test_errors_of_queries.py"
    "::test_the_documented_example_decides_between_restart_and_stop"
)
STARTS = "tests/spark/test_documented.py::test_the_documented_starts_give_a_session"
CONF = "tests/spark/test_documented.py::test_every_documented_command_that_configures_runs"
IMAGE = "tests/spark/test_documented.py::test_the_documented_image_runs_a_query"
KIT = "tests/spark/test_testing_kit.py::test_the_documented_tests_of_a_query_pass"
CHANNEL = "tests/spark/test_channels.py::test_the_documented_channel"
LOOP = "tests/spark/test_loops.py::test_the_documented_loop"
SINK = "tests/spark/test_epoch_files.py::test_the_documented_sink"
TABLES = "tests/spark/test_sink_pages.py::test_the_documented_databases"
LAKES = "tests/spark/test_sink_pages.py::test_the_documented_lakes"
CONNECTOR = "tests/spark/test_delta_connector.py::test_the_documented_functions"
OWN = "tests/spark/test_sink_pages.py::test_the_documented_functions_and_targets"
REDIS = "tests/spark/test_redis_sink.py::test_the_documented_sink"
KAFKA = "tests/spark/test_kafka_sink.py::test_the_documented_sink"
PROOF = "tests/spark/test_sink_pages.py::test_the_documented_proof"
SEALED = "tests/spark/test_coordinator.py::test_the_documented_sink"
STATUS = "tests/spark/test_coordinator.py::test_status_history_and_savepoints"
CUTS = "tests/spark/test_rows_in_flight.py"
LOOKING = "tests/unit/test_inspection_page.py"
FLOW = "tests/unit/test_flow.py::test_the_documented_code_and_commands_run"
MOVING = "tests/spark/test_offline.py::test_the_documented_operations_run"
RESCALE = "tests/spark/test_rescale_running.py::test_the_documented_rescale_runs"
GOING_BACK = "tests/spark/test_rollback.py::test_the_documented_recovery_runs"
STOPPED = "tests/spark/test_stopping.py::test_the_documented_stop_runs"
COPIED = "tests/unit/test_replicas.py::test_the_documented_commands_run"
GIVEN_UP = "tests/unit/test_expiry.py::test_the_documented_commands_run"
EDITED = "tests/spark/test_edit.py::test_the_documented_edit_runs"
ASKED = "tests/spark/test_compatible.py::test_the_documented_command_answers"
SIDE = "tests/spark/test_edit_joins.py::test_the_documented_edit_of_a_side_runs"
EXPIRY = "tests/spark/test_edit_expiring.py::test_values_lists_and_maps_that_expire_are_edited"
CHANGED = "tests/spark/test_compatible.py::test_the_documented_check_runs"
BEGUN = "tests/spark/test_bootstrap.py::test_the_documented_bootstrap_runs"
MIGRATED = "tests/spark/test_migrate.py::test_the_documented_migration_runs"
STARTED = "tests/spark/test_starting.py"
CLIENT = f"{STARTED}::test_client_mode_with_the_package_on_the_driver"
SENT = f"{STARTED}::test_client_mode_with_the_package_sent_along"
PLAIN = f"{STARTED}::test_client_mode_of_a_program_that_does_not_name_the_package"
CLUSTER = f"{STARTED}::test_cluster_mode_with_a_driver_that_is_supervised"
TYPED_IN = f"{STARTED}::test_the_shell"
ON_YARN = "tests/spark/test_starting_yarn.py"
YARN_CLIENT = f"{ON_YARN}::test_client_mode"
YARN_CLUSTER = f"{ON_YARN}::test_cluster_mode_with_a_driver_restarted_by_yarn"
MANIFEST = "tests/spark/test_documented.py::test_the_documented_manifest_matches_conf"
WATCHED = "tests/spark/test_cuts_pages.py::test_each_epoch_is_shown_live_and_afterwards"
PACED = "tests/spark/test_pace.py::test_a_budget_reports_its_effect"
CONNECTED = "tests/spark/test_connect.py::test_the_documented_server_and_client_run"
RELEASED = "tests/release/test_files.py"
PROMISED = "tests/unit/test_promise.py::test_the_documented_commands_write_the_kept_promise"
MADE = f"{RELEASED}::test_the_documented_task_makes_the_release"
CHECKED = f"{RELEASED}::test_the_documented_checks_find_unsigned_files"
FETCHED = "tests/release/test_installed.py::test_spark_submit_takes_the_jars_from_a_repository"
MONITORED = "tests/unit/test_monitoring.py::test_the_documented_commands_and_settings_are_right"
TRACED = "tests/unit/test_spans.py::test_the_documented_command_is_one"
SERVED = "tests/spark/test_metrics.py::test_the_documented_server_serves"
SCRAPED = (
    "tests/spark/test_metrics.py::test_sparks_own_sinks_have_the_metrics_of_driver_and_executors"
)
ORDERED = "tests/spark/test_in_sequence.py::test_the_documented_feed_comes_in_order"
TRIED = "tests/spark/test_trial.py::test_each_step_and_its_way_back"
OPERATED = "tests/unit/test_operating_pages.py::test_every_command_runs"
PARSED = "tests/unit/test_operating_pages.py::test_the_documented_rollback_is_parsed"
FITTING = "tests/unit/test_operating_pages.py::test_the_documented_memory_settings_fit_each_other"
MISTAKES = "tests/spark/test_mistakes.py"
RECIPES = "tests/unit/test_recipes.py"
KAFKA_IN = "tests/spark/test_kafka_sink.py::test_the_documented_recipe"
HANDOVER = "tests/spark/test_handover.py"
IN_PYTHON = f"{LOOKING}::test_the_python_code_runs"

# The test that runs each block of a page, in order.
RUN_BY: dict[tuple[str, str], list[str]] = {
    ("README.md", "python"): [QUERY],
    ("README.md", "sh"): [TASKS, QUERY, TRIAL],
    ("docs/deploy/running.md", "python"): [ERRORS],
    ("docs/use/recipes.md", "python"): [KAFKA_IN],
    ("docs/use/recipes.md", "yaml"): [f"{RECIPES}::test_the_job_has_the_settings_of_cleancut"],
    ("docs/use/recipes.md", "json"): [
        f"{RECIPES}::test_the_policy_permits_the_requests_of_the_client"
    ],
    ("docs/operate/common-mistakes.md", "text"): [MISTAKES] * 11,
    ("docs/get-started/quick-start.md", "python"): [START, START],
    ("docs/get-started/try-it.md", "python"): [TRIED, TRIED, TRIED],
    ("docs/get-started/try-it.md", "sh"): [TRIED] * 6,
    ("docs/use/channels.md", "python"): [CHANNEL, CHANNEL, CHANNEL, LOOP],
    ("docs/get-started/quick-start.md", "sh"): [TASKS, START, START, START, START, START],
    ("docs/get-started/quick-start.md", "text"): [START, START, START, START, START, START],
    ("docs/get-started/starting-spark.md", "python"): [STARTS, CLIENT],
    ("docs/get-started/starting-spark.md", "sh"): [CONF],
    ("docs/get-started/starting/spark-submit.md", "sh"): [CLIENT, SENT, PLAIN],
    ("docs/get-started/starting/standalone.md", "sh"): [CLUSTER],
    ("docs/get-started/starting/standalone.md", "java"): [CLUSTER],
    ("docs/get-started/starting/shell-and-notebooks.md", "sh"): [TYPED_IN],
    ("docs/get-started/starting/shell-and-notebooks.md", "python"): [TYPED_IN],
    ("docs/get-started/starting/yarn.md", "sh"): [YARN_CLIENT, YARN_CLUSTER],
    ("docs/deploy/kubernetes.md", "yaml"): [MANIFEST],
    ("docs/get-started/starting/spark-connect.md", "python"): [CONNECTED],
    ("docs/get-started/starting/spark-connect.md", "sh"): [CONNECTED],
    ("docs/use/sinks/files.md", "python"): [SINK, SINK, SINK],
    ("docs/use/sinks/databases.md", "python"): [TABLES, TABLES],
    ("docs/use/sinks/lakes.md", "python"): [LAKES, CONNECTOR, CONNECTOR, LAKES],
    ("docs/use/sinks/redis.md", "python"): [REDIS],
    ("docs/use/sinks/kafka.md", "python"): [KAFKA],
    ("docs/use/sinks/your-own.md", "python"): [OWN, OWN, OWN, OWN, OWN, PROOF],
    ("docs/use/object-stores.md", "python"): [STARTS, STATUS],
    ("docs/use/sinks/sealed.md", "python"): [SEALED],
    ("docs/use/testing.md", "python"): [KIT, KIT, KIT],
    ("docs/use/order.md", "python"): [ORDERED, ORDERED, ORDERED],
    ("docs/operate/moving.md", "python"): [MOVING, RESCALE],
    ("docs/operate/moving.md", "sh"): [MOVING],
    ("docs/use/editing.md", "python"): [EDITED, SIDE, EXPIRY, BEGUN],
    ("docs/use/changing.md", "python"): [CHANGED, MIGRATED],
    ("docs/use/changing.md", "sh"): [ASKED],
    ("docs/use/release.md", "python"): [
        f"{HANDOVER}::test_the_documented_command_takes_over_from_the_deployment",
        f"{HANDOVER}::test_the_documented_standby_takes_over_from_the_documented_program",
    ],
    ("docs/use/release.md", "sh"): [
        f"{HANDOVER}::test_the_documented_command_takes_over_from_the_deployment",
        f"{HANDOVER}::test_the_documented_standby_takes_over_from_the_documented_program",
    ],
    ("docs/use/release.md", "properties"): [f"{HANDOVER}::test_the_documented_setting_hands_over"],
    ("docs/use/release.md", "yaml"): [
        f"{HANDOVER}::test_the_documented_deployment_waits_for_the_command"
    ],
    ("docs/operate/recovery.md", "python"): [STOPPED, GOING_BACK],
    ("docs/operate/recovery.md", "sh"): [GOING_BACK],
    ("docs/operate/recovery/replicate.md", "sh"): [COPIED],
    ("docs/operate/recovery/expire.md", "sh"): [GIVEN_UP],
    ("docs/operate/inspection.md", "python"): [IN_PYTHON, IN_PYTHON, IN_PYTHON],
    ("docs/operate/costs.md", "python"): [IN_PYTHON],
    ("docs/operate/costs.md", "sh"): [f"{LOOKING}::test_the_commands_of_costs_run"],
    ("docs/operate/inspection.md", "sh"): [
        f"{LOOKING}::test_every_command_on_a_directory_runs",
        f"{LOOKING}::test_the_live_commands_run",
        f"{LOOKING}::test_every_command_on_a_bucket_runs",
        f"{LOOKING}::test_the_restore_command_runs",
    ],
    ("docs/operate/watching.md", "python"): [WATCHED],
    ("docs/operate/pace.md", "python"): [PACED],
    ("docs/operate/watching.md", "sh"): [WATCHED, WATCHED],
    ("docs/concepts/cuts.md", "python"): [CUTS, CUTS],
    ("docs/concepts/dataflow.md", "python"): [FLOW],
    ("docs/concepts/dataflow.md", "sh"): [FLOW],
    # Without a cluster, the steps that do not install run on a copy of Spark's directory.
    ("docs/deploy/kubernetes.md", "dockerfile"): [IMAGE],
    ("docs/deploy/kubernetes.md", "properties"): [IMAGE],
    ("docs/use/python-state.md", "python"): ["tests/spark/test_python_loop.py"],
    ("docs/operate/troubleshoot.md", "sh"): [OPERATED] * 3,
    ("docs/operate/upgrading.md", "sh"): [OPERATED, PARSED],
    ("docs/deploy/production-checklist.md", "sh"): [OPERATED],
    ("docs/deploy/sizing.md", "sh"): [OPERATED],
    ("docs/deploy/sizing.md", "properties"): [FITTING],
    ("docs/operate/monitoring.md", "sh"): [MONITORED, TRACED],
    ("docs/operate/monitoring.md", "yaml"): [MONITORED],
    ("docs/operate/monitoring.md", "python"): [SERVED],
    ("docs/operate/monitoring.md", "properties"): [SCRAPED],
    ("docs/project/releasing.md", "sh"): [PROMISED, MADE, CHECKED, FETCHED],
}
# Drawings of bytes and directories, a task that takes hours, and services that no test has.
NOT_RUN = {
    # PySpark has no scripts that start a master.
    ("docs/get-started/starting/standalone.md", "sh"): 1,
    ("docs/deploy/kubernetes.md", "sh"): 1,
    ("docs/use/release.md", "sh"): 1,
    ("docs/get-started/starting/emr.md", "sh"): 3,
    ("docs/get-started/starting/dataproc.md", "sh"): 1,
    ("docs/get-started/starting/databricks.md", "sh"): 1,
    ("docs/FORMAT.md", ""): 2,
    ("docs/design/architecture.md", "mermaid"): 1,
    ("docs/design/0001-state-engine.md", ""): 1,
    ("docs/project/campaign-records.md", "sh"): 1,
}
INLINE = re.compile(r"`(?:python -m )?cleancut (\w[\w-]*)([^`]*)`")
TASK = re.compile(r"(?:`|^)make ([\w-]+)", flags=re.MULTILINE)


def missing(blocks: list[Block]) -> list[str]:
    """Returns the kinds of blocks whose number differs from the number of their tests."""
    there = Counter((block.page, block.language) for block in blocks)
    run = Counter({kind: len(tests) for kind, tests in RUN_BY.items()}) + Counter(NOT_RUN)
    return [
        f"{kind}: {there[kind]} blocks, {run[kind]} of them run"
        for kind in there | run
        if there[kind] != run[kind]
    ]


def test_every_block_is_run_by_a_test() -> None:
    blocks = [block for page in PAGES for block in fenced(named(page))]
    assert len(blocks) > 40
    assert missing(blocks) == []
    assert missing([*blocks, Block("docs/get-started/quick-start.md", "sh", "cleancut ls")]) != []
    assert missing([*blocks, Block("docs/PROTOCOL.md", "python", "1 + 1")]) != []


@pytest.mark.parametrize(("kind", "tests"), RUN_BY.items(), ids=str)
def test_the_test_of_a_block_exists_and_reads_its_page(
    kind: tuple[str, str], tests: list[str]
) -> None:
    page = Path(kind[0]).name
    for file, _, test in (name.partition("::") for name in set(tests)):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert page in text
        assert f"def {test}(" in text if test else "blocks(" in text


def test_commands_and_tasks_in_sentences_exist() -> None:
    """Commands in sentences are parsed, and names of tasks are looked up in the Makefile."""
    subcommands = _commands()
    menu = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for command, _ in INLINE.findall(text):
            assert command in subcommands, f"{named(page)}: cleancut {command}"
        for task in TASK.findall(text):
            assert re.search(rf"^{task}:", menu, re.MULTILINE), f"{named(page)}: make {task}"


def _commands() -> set[str]:
    choices = _cli._parser()._subparsers
    assert choices is not None
    (action,) = choices._group_actions
    return set(action.choices or ())
