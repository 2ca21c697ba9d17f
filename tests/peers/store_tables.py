"""The tables of randomized queries on each state store."""

from collections.abc import Sequence

from tests.peers.stores import STORE_RESULTS, STORES, StoreResult

BEGIN = "<!-- made by tests/peers: stores -->"
# Each with its column.
_COUNTS = {
    "epochs": "epochs",
    "repeated": "epochs written twice",
    "rows": "rows",
    "lost": "lost",
    "duplicated": "duplicated",
    "wrong": "wrong",
    "unordered": "out of order",
    "changed": "changed epochs",
    "appended_lost": "lost by a plain append",
    "appended_duplicated": "duplicated by a plain append",
}


def render(results: Sequence[StoreResult] | None = None) -> str:
    """Renders the sums of all seeds, and the seeds."""
    shown = STORE_RESULTS.read() if results is None else results
    columns = ["queries", "drivers killed", "executors killed", *_COUNTS.values()]
    rows = [f"| state store | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for store in STORES:
        mine = [one for one in shown if one.store == store]
        runs = {(one.seed, one.drivers, one.executors) for one in mine}
        kills = [sum(drivers for _, drivers, _ in runs), sum(killed for _, _, killed in runs)]
        sums = [sum(getattr(one, count) for one in mine) for count in _COUNTS]
        cells = map(str, [len(mine), *kills, *sums])
        rows.append(f"| {store} | {' | '.join(cells)} |")
    rows += ["", "| seed | commit | queries |", "|---|---|---|"]
    for seed, commit in {one.seed: one.commit for one in shown}.items():
        queries = dict.fromkeys(f"`{one.query}`" for one in shown if one.seed == seed)
        rows.append(f"| {seed} | {commit} | {', '.join(queries)} |")
    # A table needs an empty line before it.
    return "\n".join(["", *rows, ""])
