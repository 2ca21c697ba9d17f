"""A query that sends into a channel whose rows lie in a topic, and dies at a step of an epoch.

`python -m tests.support.topic_victim <root> <servers> <topic> <step> <epoch>` sends a file an
epoch, and ends where it is told: *before* the transaction of the epoch is committed, *between* that
and the manifest, or *after* the manifest and before Spark hears of it; or, at *none*, with its
input.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cleancut import Channel, KafkaTopic
from cleancut._dataflow.topic_publishing import TopicPublishing
from cleancut._dataflow.topic_sender import TopicSender
from cleancut.sinks._core.batch import Batch
from cleancut.sinks._files.directory import SinkDirectory
from cleancut.sinks._files.manifest import Manifest
from cleancut.sinks._files.publishing import Publishing
from tests.support.kills import die_with_the_test
from tests.support.sessions import builder, take_out_defaults, with_cuts

SCHEMA = "k BIGINT, v BIGINT"
STEPS = ("before", "between", "after")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(Channel):
    """Dies at a step of an epoch."""

    death = ("none", -1)

    def _made(self, directory: SinkDirectory, session: SparkSession) -> Publishing:
        assert self.topic is not None
        found = DyingPublishing(directory, self._output, self.topic, session)
        sender = DyingSender(self.topic, directory.location)
        found.death = sender.death = self.death
        found._sender = sender
        return found


class DyingPublishing(TopicPublishing):
    death = ("none", -1)

    def publish(self, staged: Manifest, batch: Batch) -> Manifest:
        found = super().publish(staged, batch)
        if self.death == ("after", batch.epoch):
            _die()
        return found


class DyingSender(TopicSender):
    death = ("none", -1)

    def _commit(self, producer: Any) -> None:
        epoch = -1 if self._staged is None else self._staged.epoch
        if self.death == ("before", epoch):
            _die()
        super()._commit(producer)
        if self.death == ("between", epoch):
            _die()


def main(root: Path, servers: str, topic: str, step: str, epoch: int) -> None:
    """Runs the query from wherever it was left."""
    die_with_the_test()
    base = builder("local[2]").getOrCreate()
    take_out_defaults(base)
    spark = with_cuts(base, 2)
    channel = Dying(root / "channel", topic=KafkaTopic(servers, topic))
    channel.death = (step, epoch)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    query = (
        rows.json(str(root / "in"))
        .writeStream.foreachBatch(channel)
        .option("checkpointLocation", str(root / "sender"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    base.stop()


if __name__ == "__main__":
    where, servers, topic, step, epoch = sys.argv[1:6]
    main(Path(where), servers, topic, step, int(epoch))
