"""Spark's daemon of Python workers, with the modules of tests already imported.

Workers are forks of the daemon. One that starts without this imports pandas and the modules of the
tests' functions, which takes more of a processor than all else that it does; and one starts for
each task that fails. `spark.python.daemon.module` names it.
"""

import os

# A fork has only the thread that forks.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pandas
import pyarrow
import pyspark.worker
from pyspark.daemon import manager

import tests.support.queries

LOADED = (pandas, pyarrow, pyspark.worker, tests.support.queries)

if __name__ == "__main__":
    manager()
