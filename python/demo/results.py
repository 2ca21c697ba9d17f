"""The results of a run."""

from demo.job import Job
from demo.sink import ResultFiles, Results


def results_of(job: Job, query: str) -> Results:
    """Returns the results of a query."""
    if job.has_tables:
        # With files, PostgreSQL need not be installed.
        from demo.tables import ResultTable

        return ResultTable(query)
    return ResultFiles(job.results(query))
