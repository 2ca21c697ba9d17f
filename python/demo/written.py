"""Counts the bytes that the state stores write, although old files are deleted as the run goes."""

from demo.job import QUERIES, Job

# Spark's own for its providers, and Cleancut's.
_STATE_DIRECTORIES = ("state", "cleancut")


class WrittenBytes:
    """Sums up every file that was ever seen below the state directories.

    Spark keeps the files of the last hundred epochs, so one look every few seconds misses none.
    """

    def __init__(self, job: Job) -> None:
        """Nothing is seen yet."""
        self._job = job
        self._sizes: dict[str, dict[str, int]] = {query: {} for query in QUERIES}

    def total(self, query: str) -> int:
        """Bytes of all files of a query seen so far."""
        return sum(self._sizes[query].values())

    def look(self) -> None:
        """Takes in what is there now."""
        for query, sizes in self._sizes.items():
            for part in _STATE_DIRECTORIES:
                for name, size in self._job.checkpoint(query).sizes(part):
                    sizes[name] = max(size, sizes.get(name, 0))
