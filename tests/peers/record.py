"""Results of idioms under faults, and their tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.peers import contract_tables, store_tables
from tests.peers.idioms import IDIOMS
from tests.peers.stored import Section
from tests.support import marked_pages
from tests.support.sessions import HDFS

PAGE = Path(__file__).parents[2] / "docs/use/sinks/idioms.md"
_COUNTS = [
    "epochs",
    "killed",
    "paused",
    "servers",
    "rows",
    "lost",
    "duplicated",
    "replaced",
    "torn",
]


@dataclass(frozen=True)
class Result:
    """The result of one idiom or sink in one campaign.

    Attributes:
        name: the name of the idiom or sink.
        seed: the seed of the campaign.
        commit: the commit of the campaign.
        epochs: the number of epochs.
        killed: kills of the driver.
        paused: pauses of the driver until others had written epochs.
        servers: kills of the target's server.
        rows: the number of expected rows.
        lost: the number of missing rows at the end.
        duplicated: the number of surplus copies of rows at the end.
        replaced: rows at the end that a later epoch had replaced, or that no epoch had.
        torn: polls that returned rows of no complete prefix of epochs.
        reverted: polls that returned fewer epochs than an earlier poll.
    """

    name: str
    seed: int
    commit: str
    epochs: int
    killed: int
    paused: int
    servers: int
    rows: int
    lost: int
    duplicated: int
    replaced: int
    torn: int
    reverted: int


CAMPAIGNS = Section("campaigns", Result, ["name", "seed"])


def render(results: Sequence[Result] | None = None) -> str:
    """Renders the tables: the sums of all campaigns, and the campaigns."""
    shown = CAMPAIGNS.read() if results is None else results
    names = list(dict.fromkeys(one.name for one in shown))
    rows = [
        "| function or sink | state store | documented | epochs | drivers killed | paused |"
        " servers killed | rows | lost | duplicated | replaced rows | torn reads |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in sorted(names, key=lambda name: (name not in IDIOMS, name)):
        mine = [one for one in shown if one.name == name]
        sums = [str(sum(getattr(one, count) for one in mine)) for count in _COUNTS]
        rows.append(f"| {' | '.join([*_described(name), *sums])} |")
    campaigns = {one.seed: one.commit for one in shown}
    rows += [
        "",
        "| seed | commit | faults of a driver | functions and sinks |",
        "|---|---|---|---|",
    ]
    for seed, commit in campaigns.items():
        mine = [one for one in shown if one.seed == seed]
        faults = max(one.killed + one.paused + one.servers for one in mine)
        rows.append(f"| {seed} | {commit} | {faults} | {len(mine)} |")
    # A table needs an empty line before it.
    return "\n".join(["", *rows, ""])


def _described(name: str) -> tuple[str, str, str]:
    idiom = IDIOMS.get(name)
    if idiom is None:
        return f"`{name}`", "Cleancut", "exactly once"
    provider = "HDFS-backed" if idiom.provider == HDFS else "RocksDB"
    function = name.removesuffix(", HDFS provider")
    target = f", {idiom.target}" if idiom.target.startswith("PostgreSQL") else ""
    return f"{function}{target}", provider, f"[{idiom.documented}]({idiom.documentation})"


# The tables of the page, each between its marks.
TABLES: dict[str, Callable[[], str]] = {
    "<!-- made by tests/peers -->": render,
    contract_tables.BEGIN: contract_tables.render,
    store_tables.BEGIN: store_tables.render,
}


def update(page: Path = PAGE) -> None:
    """Puts the tables into the page."""
    for begin, table in TABLES.items():
        marked_pages.update(page, begin, table())
