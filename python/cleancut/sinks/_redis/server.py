"""Access to a Redis server, and the durability of its acknowledged writes."""

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
# Timeout for a running script, which takes far less.
_ANSWER_S = 60

Result = TypeVar("Result")


@dataclass(frozen=True)
class RedisServer:
    """A server that both the driver and its executors can reach; it can be pickled.

    Attributes:
        url: redis-py URL.
    """

    url: str = field(repr=False)

    @property
    def label(self) -> str:
        """Its location, without secrets."""
        return masked(self.url)

    def secrets(self) -> Sequence[str]:
        """Texts that must not appear in errors and logs."""
        try:
            password = urlsplit(self.url).password or ""
        except ValueError:
            password = ""
        return [password, unquote(password)]

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A client with its own connection, which sends each command once."""
        redis = _redis()
        # The client's own retries could add staged rows twice.
        once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        client = redis.Redis.from_url(
            self.url, retry=once, socket_connect_timeout=_CONNECT_S, socket_timeout=_ANSWER_S
        )
        try:
            yield client
        finally:
            client.close()

    def within(self, work: Callable[[Any], Result], seconds: float, sink: str) -> Result:
        """Calls a function with a client, and retries it while the server is unavailable.

        Args:
            work: the function to call; it may be called several times.
            seconds: seconds after which no new attempt begins.
            sink: name of the sink, for errors.

        Raises:
            RetryableError: CLEANCUT_SINK_UNREACHABLE.
            RequestError: CLEANCUT_SINK_REFUSED.
        """

        def once() -> Result:
            with self.connected() as client:
                return work(client)

        return retried(once, self.verdict, self.secrets(), seconds, sink)

    def verdict(self, failure: Exception) -> str:
        """Classifies a failure, as `Database.verdict`."""
        redis = _redis()
        if not isinstance(failure, redis.exceptions.RedisError):
            return "foreign"
        if isinstance(failure, redis.exceptions.AuthenticationError):
            return "error"
        lost = (
            redis.exceptions.ConnectionError,
            redis.exceptions.TimeoutError,
            # After a failover, until the client connects to the new server.
            redis.exceptions.ReadOnlyError,
        )
        if isinstance(failure, lost):
            return "lost"
        again = ("BUSY ", "LOADING ", "NOREPLICAS ", "MASTERDOWN ", "TRYAGAIN ")
        return "again" if str(failure).startswith(again) else "error"


def server_problem(client: Any, allow_volatile: bool) -> str | None:
    """The reason why epochs cannot be written to a server; None if they can.

    Logs a warning if acknowledged writes may be lost when the server's machine fails.

    Args:
        client: a client of the server.
        allow_volatile: whether the server may lose acknowledged writes when it crashes.
    """
    info = client.info("everything")
    if info.get("redis_mode") == "cluster" or info.get("cluster_enabled"):
        return (
            "the server is part of a cluster, in which one script cannot access all keys; use a"
            " server without cluster mode"
        )
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if info.get("maxmemory") and policy.startswith("allkeys"):
        return (
            f"the server may evict any key when its memory is full (maxmemory-policy {policy}),"
            " including the ledger; set noeviction, or a policy for volatile keys"
        )
    return None if allow_volatile else _volatile(client, bool(info.get("aof_enabled")))


def _volatile(client: Any, has_log: bool) -> str | None:
    if not has_log:
        return (
            "the server has no append-only log (appendonly no), and loses epochs when it crashes;"
            " set appendonly yes, or allow_volatile=True"
        )
    fsync = _fsync(client)
    if fsync == "no":
        return (
            "the operating system decides when the server's log is on disk (appendfsync no); set"
            " always or everysec, or allow_volatile=True"
        )
    if fsync != "always":
        _LOG.warning(
            "Redis may lose writes that it acknowledged within the last second before a machine"
            " failure (appendfsync %s); set always to prevent that",
            fsync or "unknown",
        )
    return None


def _fsync(client: Any) -> str | None:
    try:
        setting = client.config_get("appendfsync")
    except _redis().exceptions.ResponseError:
        # Managed services often forbid the command.
        return None
    return setting.get("appendfsync") if setting else None


def _redis() -> Any:
    """The package.

    Raises:
        RequestError: CLEANCUT_DEPENDENCY_MISSING.
    """
    return extra_package("redis", feature="Redis", package="redis", extra="redis")
