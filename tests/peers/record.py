"""Results of idioms under faults, stored next to the idioms, and the tables of the page."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.peers.idioms import IDIOMS
from tests.support import marked_pages
from tests.support.sessions import HDFS

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs/use/sinks/idioms.md"
_BEGIN = "<!-- made by tests/peers -->"
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


def read(place: Path = RESULTS) -> list[Result]:
    """Reads the results, in the order of their campaigns."""
    if not place.exists():
        return []
    return [Result(**fields) for fields in json.loads(place.read_text(encoding="utf-8"))]


def add(results: Iterable[Result], place: Path = RESULTS) -> None:
    """Stores results, instead of earlier ones of the same name and seed."""
    by_key = {(one.name, one.seed): one for one in (*read(place), *results)}
    stored = [asdict(one) for one in by_key.values()]
    place.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def render(results: Sequence[Result] | None = None) -> str:
    """Renders the tables: the sums of all campaigns, and the campaigns."""
    shown = read() if results is None else results
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


def written(page: Path = PAGE) -> str:
    """Returns the part of the page between the marks."""
    return marked_pages.written(page, _BEGIN)


def update(page: Path = PAGE) -> None:
    """Puts the tables into the page."""
    marked_pages.update(page, _BEGIN, render())
