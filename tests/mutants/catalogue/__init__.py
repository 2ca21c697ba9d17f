"""The planted defects in code."""

from collections.abc import Sequence

from tests.mutants.catalogue import (
    capture,
    checksums,
    commits,
    dataflow,
    engine,
    formats,
    handovers,
    operations,
    protocol,
    readers,
    sinks,
    worker,
)
from tests.mutants.mutant import Mutant

MUTANTS: Sequence[Mutant] = [
    *engine.MUTANTS,
    *checksums.MUTANTS,
    *protocol.MUTANTS,
    *commits.MUTANTS,
    *handovers.MUTANTS,
    *capture.MUTANTS,
    *formats.MUTANTS,
    *readers.MUTANTS,
    *operations.MUTANTS,
    *sinks.MUTANTS,
    *dataflow.MUTANTS,
    *worker.MUTANTS,
]
