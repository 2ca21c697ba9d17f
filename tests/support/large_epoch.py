"""Writes one epoch that is large for its driver, on a cluster; prints its costs as JSON.

`python -m tests.support.large_epoch <kind> <home> <rows> <keys>`
"""

import json
import resource
import sys
from pathlib import Path

from cleancut.testing._simulated_query import SimulatedQuery
from tests.support.lakes import lake_at
from tests.support.sessions import builder

if __name__ == "__main__":
    kind, home, count, keys = sys.argv[1:5]
    spark = (
        builder("local-cluster[2,1,1024]")
        # The limit of task results: their reports fit, the rows do not.
        .config("spark.driver.maxResultSize", "1m")
        .getOrCreate()
    )
    sink = lake_at(kind, Path(home)).sink(**({"keys": "id"} if keys == "keys" else {}))
    run = SimulatedQuery().start()

    def epoch(number: int, first: int, rows: int) -> None:
        made = spark.range(first, first + rows, 1, 8).selectExpr(
            "id", "concat(sha2(string(id), 512), sha2(string(-id), 256)) AS word"
        )
        run.give(sink, made, number)

    def peak_bytes() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    # Modules that are loaded once do not count.
    epoch(0, 0, 1000)
    before = peak_bytes()
    epoch(1, 500, int(count))
    print(json.dumps({"grownBytes": peak_bytes() - before}))
    spark.stop()
