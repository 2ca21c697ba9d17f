"""Where the results of a run are."""

from demo.job import Job
from demo.sink import ResultFiles, Results


def results_of(job: Job, query: str) -> Results:
    """What takes the results of a query, and has them."""
    if job.has_tables:
        # With files alone nothing of PostgreSQL has to be installed.
        from demo.tables import ResultTable

        return ResultTable(query)
    return ResultFiles(job.results(query))
