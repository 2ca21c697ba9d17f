"""Where a running query stands, and savepoints of it, by its coordinator on the driver."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cleancut._s3 import SCHEMES
from cleancut.checkpoint import Checkpoint
from cleancut.cuts import CutInfo
from cleancut.errors import error_of, from_java
from cleancut.infos import InfoList
from cleancut.settings import PREFIX

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.1


@dataclass(frozen=True)
class EpochProgress:
    """How far the epoch is that is under way.

    Attributes:
        epoch: Spark's batch id.
        attempts: task attempts that have opened a store.
        complete: those of them that have reported every store that they opened.
        failed: those that have failed.
        stores: stores that the epoch must have, as far as is known by now.
        reported: those of them that have a frame.
    """

    epoch: int
    attempts: int
    complete: int
    failed: int
    stores: int
    reported: int


@dataclass(frozen=True)
class RequestCount:
    """Requests of one kind to the object store, by the driver's process since it began.

    Attributes:
        requests: as sent, repetitions included: what the store bills.
        retries: those that repeat one that failed.
        failures: calls that ended with an error.
    """

    requests: int
    retries: int
    failures: int


@dataclass(frozen=True)
class CoordinatorStatus:
    """Where a query stands.

    Attributes:
        location: where its cuts lie.
        run_id: Spark's id of the run that owns the query; None until its first task or commit.
        generation: how many runs have owned it, this one included; None likewise.
        committed: the last epoch that is committed; None before the first.
        epoch: the one under way; None before the first task.
        requests: by kind, the driver's to the bucket, whatever query they were for.
        bytes_sent: in bodies of requests.
        bytes_received: in bodies of answers.
    """

    location: str
    run_id: str | None
    generation: int | None
    committed: int | None
    epoch: EpochProgress | None
    requests: Mapping[str, RequestCount]
    bytes_sent: int
    bytes_received: int


class Coordinator:
    """What commits the epochs of one query by cuts."""

    def __init__(self, jvm: Any, location: str, access: Mapping[str, str | None]) -> None:
        self._jvm = jvm
        self._location = location
        self._access = dict(access)

    def __repr__(self) -> str:
        return f"Coordinator({self._location!r})"

    @property
    def location(self) -> str:
        """The checkpoint location, as Spark resolved it."""
        return self._location

    def status(self) -> CoordinatorStatus:
        """Where the query stands now, by its driver.

        Raises:
            RequestError: CLEANCUT_COORDINATOR_MISSING, if the driver is another one.
        """
        found = json.loads(self._call("status"))
        epoch = found.get("epoch")
        return CoordinatorStatus(
            location=found["location"],
            run_id=found.get("runId"),
            generation=found.get("generation"),
            committed=found.get("committed"),
            epoch=EpochProgress(**epoch) if epoch else None,
            requests={kind: RequestCount(**count) for kind, count in found["requests"].items()},
            bytes_sent=found["bytesSent"],
            bytes_received=found["bytesReceived"],
        )

    def history(self) -> InfoList[CutInfo]:
        """All cuts that the store holds, by their epochs: it outlives the driver.

        Raises:
            RequestError: CLEANCUT_CHECKPOINT_NOT_FOUND before the first epoch, and as Checkpoint.
            DamagedError: a cut is damaged.
        """
        return Checkpoint(
            self._location,
            endpoint=self._access.get("endpoint"),
            region=self._access.get("region"),
        ).cuts()

    def wait_for(self, epoch: int, timeout: float | None = None) -> bool:
        """Waits until an epoch is committed.

        Args:
            epoch: Spark's batch id.
            timeout: in seconds; None waits for as long as it takes.

        Returns:
            Whether it is committed.

        Raises:
            RequestError: CLEANCUT_COORDINATOR_MISSING.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            committed = self.status().committed
            if committed is not None and committed >= epoch:
                return True
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(_POLL_S)

    def pin(self, name: str, epoch: int | None = None) -> int:
        """Keeps a cut, and all that it needs, under a name until it is given up.

        Args:
            name: 1 to 64 letters, digits, dashes and underscores; one that no savepoint has.
            epoch: Spark's batch id; None is the last that is committed.

        Returns:
            The epoch of the cut.

        Raises:
            RequestError: CLEANCUT_SAVEPOINT_INVALID, CLEANCUT_COORDINATOR_MISSING.
        """
        chosen = self.status().committed if epoch is None else epoch
        if chosen is None:
            raise error_of(
                "CLEANCUT_SAVEPOINT_INVALID",
                name=name,
                location=self._location,
                detail="no epoch is committed yet",
            )
        self._call("pin", name, chosen)
        return chosen

    def unpin(self, name: str) -> bool:
        """Gives a savepoint up. Returns whether there was one of this name.

        Raises:
            RequestError: CLEANCUT_COORDINATOR_MISSING.
        """
        return bool(self._call("unpin", name))

    def _call(self, method: str, *arguments: Any) -> Any:
        from py4j.protocol import Py4JJavaError

        facade = self._jvm.io.cleancut.CleancutCoordinator
        try:
            return getattr(facade, method)(self._location, *arguments)
        except Py4JJavaError as failure:
            found = from_java(failure)
            if found is None:
                raise
            raise found from failure


def coordinator(query: "StreamingQuery") -> Coordinator:
    """The coordinator of a query that was started in this session.

    Args:
        query: as `writeStream.start()` returned it, with its checkpoint location on `s3://`, or
            elsewhere with cuts.

    Raises:
        RequestError: CLEANCUT_COORDINATOR_MISSING for a query without cuts.
    """
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or context._jvm is None:
        raise error_of("CLEANCUT_COORDINATOR_MISSING", location="of a session that was stopped")
    execution = query._jsq.streamingQuery()
    conf = execution.sparkSession().conf()
    location = str(execution.resolvedCheckpointRoot())
    ways = ("endpoint", "region") if location.startswith(SCHEMES) else ()
    access = {name: _set_value(conf, f"{PREFIX}{name}") for name in ways}
    found = Coordinator(context._jvm, location, access)
    found.status()
    return found


def _set_value(conf: Any, key: str) -> str | None:
    option = conf.getOption(key)
    value = str(option.get()) if option.isDefined() else "auto"
    return None if value == "auto" else value
