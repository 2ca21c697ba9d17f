"""How a sink reaches a server of Redis, and what this one promises of what it has acknowledged."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from cleancut._packages import extra_package
from cleancut.sinks._core.database import masked, retried

_LOG = logging.getLogger("cleancut.sinks")
_CONNECT_S = 10
# A script that has begun is waited for; it takes far less than that.
_ANSWER_S = 60

Result = TypeVar("Result")


@dataclass(frozen=True)
class RedisServer:
    """A server, as both the driver and its executors reach it: it can be pickled.

    Attributes:
        url: redis-py's.
    """

    url: str = field(repr=False)

    @property
    def label(self) -> str:
        """Its place, without a secret."""
        return masked(self.url)

    def secrets(self) -> Sequence[str]:
        """What may stand in no text."""
        try:
            password = urlsplit(self.url).password or ""
        except ValueError:
            password = ""
        return [password, unquote(password)]

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A client with a connection of its own, which sends each command once."""
        redis = _redis()
        # Its own retries would add a part of what is staged a second time.
        once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        client = redis.Redis.from_url(
            self.url, retry=once, socket_connect_timeout=_CONNECT_S, socket_timeout=_ANSWER_S
        )
        try:
            yield client
        finally:
            client.close()

    def within(self, work: Callable[[Any], Result], seconds: float, sink: str) -> Result:
        """Does something with a client, and again where the server is not there.

        Args:
            work: what to do; may be called several times.
            seconds: after which no new try is begun.
            sink: whose name stands in errors.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
            RequestError: CLEANCUT_SINK_REFUSED.
        """

        def once() -> Result:
            with self.connected() as client:
                return work(client)

        return retried(once, self.verdict, self.secrets(), seconds, sink)

    def verdict(self, failure: Exception) -> str:
        """What a failure is, as `Database.verdict`."""
        redis = _redis()
        if not isinstance(failure, redis.exceptions.RedisError):
            return "foreign"
        if isinstance(failure, redis.exceptions.AuthenticationError):
            return "error"
        lost = (
            redis.exceptions.ConnectionError,
            redis.exceptions.TimeoutError,
            # As after a failover, until the client asks another server.
            redis.exceptions.ReadOnlyError,
        )
        if isinstance(failure, lost):
            return "lost"
        again = ("BUSY ", "LOADING ", "NOREPLICAS ", "MASTERDOWN ", "TRYAGAIN ")
        return "again" if str(failure).startswith(again) else "error"


def server_problem(client: Any, allow_volatile: bool) -> str | None:
    """Why epochs cannot be written to a server; None if they can.

    What it costs if its machine dies within a second is logged.

    Args:
        client: of the server.
        allow_volatile: whether it may forget, when it crashes, what it has acknowledged.
    """
    found = client.info("everything")
    if found.get("redis_mode") == "cluster" or found.get("cluster_enabled"):
        return (
            "the server is one of a cluster, in which one script does not reach all keys; take a"
            " server without cluster mode"
        )
    policy = str(found.get("maxmemory_policy", "noeviction"))
    if found.get("maxmemory") and policy.startswith("allkeys"):
        return (
            f"the server may drop any key when its memory is full (maxmemory-policy {policy}), the"
            " note of which epochs it has among them; set noeviction, or a policy for volatile keys"
        )
    return None if allow_volatile else _volatile(client, bool(found.get("aof_enabled")))


def _volatile(client: Any, has_log: bool) -> str | None:
    if not has_log:
        return (
            "the server keeps no log of what it is told (appendonly no), and forgets epochs when"
            " it crashes; set appendonly yes, or say allow_volatile=True"
        )
    fsync = _fsync(client)
    if fsync == "no":
        return (
            "the server leaves it to the system when its log goes to disk (appendfsync no); set"
            " always or everysec, or say allow_volatile=True"
        )
    if fsync != "always":
        _LOG.warning(
            "what Redis has acknowledged may be lost if its machine, not only its process, dies"
            " within a second (appendfsync %s); always leaves nothing out",
            fsync or "unknown",
        )
    return None


def _fsync(client: Any) -> str | None:
    try:
        found = client.config_get("appendfsync")
    except _redis().exceptions.ResponseError:
        # Services that run the server for others often do not let it be asked.
        return None
    return found.get("appendfsync") if found else None


def _redis() -> Any:
    """The package.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    return extra_package("redis", feature="Redis", package="redis", extra="redis")
