"""A few concurrent queries until the end of the input; the kill tests kill the process.

`python -m tests.support.victim <master> <provider> <events> <root> <operator>...` continues from
the last state of the checkpoints.
"""

import sys
from pathlib import Path

from tests.support.queries import OPERATORS, PROCESSORS
from tests.support.sessions import builder, start


def main(master: str, provider: str, events: Path, root: Path, names: list[str]) -> None:
    """Runs the named operators over the events, each with its files below `root`."""
    spark = builder(master).config("spark.scheduler.mode", "FAIR").getOrCreate()
    known = OPERATORS | PROCESSORS
    queries = [
        start(spark, known[name], events=events, root=root / name, provider=provider)
        for name in names
    ]
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])
