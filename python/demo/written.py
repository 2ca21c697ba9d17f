"""Counts the bytes that the state stores write, although old files are deleted during the run."""

from demo.job import QUERIES, Job

# The directories of Spark's own providers, and Cleancut's.
_STATE_DIRECTORIES = ("state", "cleancut")


class WrittenBytes:
    """Sums the sizes of all files that were ever below the state directories.

    Spark keeps the files of the last hundred epochs, so a poll every few seconds misses none.
    """

    def __init__(self, job: Job) -> None:
        """Starts without files."""
        self._job = job
        self._sizes: dict[str, dict[str, int]] = {query: {} for query in QUERIES}

    def total(self, query: str) -> int:
        """Returns the bytes of all files of a query so far."""
        return sum(self._sizes[query].values())

    def look(self) -> None:
        """Adds the current files."""
        for query, sizes in self._sizes.items():
            for part in _STATE_DIRECTORIES:
                for name, size in self._job.checkpoint(query).sizes(part):
                    sizes[name] = max(size, sizes.get(name, 0))
