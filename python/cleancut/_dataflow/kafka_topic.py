"""A topic of Kafka in which the rows of a channel lie."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cleancut._display.brief import brief
from cleancut.errors import error_of
from cleancut.sinks._kafka.cluster import KafkaCluster


@dataclass(frozen=True, repr=False)
class KafkaTopic:
    """Where the rows of a `Channel` lie, in the place of files.

        Channel("s3://bucket/orders", topic=KafkaTopic("broker:9092", "orders"))

    Each record is a row as JSON. Its headers tell where it is from: `cleancut-sender` (Spark's id
    of the query), `cleancut-epoch`, `cleancut-attempt`, and `cleancut-sequence`, which of the
    epoch's rows in the partition it is, from 0 on.

    Attributes:
        servers: brokers to begin with, as `host:9092,other:9092`. Readers begin with them, too.
        name: of the topic, which is there, is not compacted, and keeps records for longer than any
            reader is behind, or may be set back.
        options: librdkafka's configuration, for the query that sends, as
            `{"security.protocol": "SASL_SSL", …}`. What is secret there is in no log, error and
            `repr`.
        reader_options: Kafka's own configuration of a consumer, for queries that read. Spark takes
            it as options of a source, whose names get `kafka.` before them; `bootstrap.servers`
            there takes the place of what the sender used.
        control_topic: the compacted topic of what is noted of queries; made, with one partition, if
            it is not there.
        retry_for_s: for how many seconds a lost connection is made again.
    """

    servers: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    reader_options: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    control_topic: str = field(default="cleancut-epochs", kw_only=True)
    retry_for_s: float = field(default=60.0, kw_only=True)

    def __repr__(self) -> str:
        return brief(type(self).__name__, {"servers": self.servers, "name": self.name})

    def __post_init__(self) -> None:
        """Checks the options.

        Raises:
            RequestError: CLEANCUT_SINK_REFUSED, an option decides what a channel promises.
        """
        cluster = KafkaCluster(self.servers, self.options, self.control_topic)
        problem = cluster.not_its_own()
        if problem is not None:
            raise error_of("CLEANCUT_SINK_REFUSED", sink=f"{self!r}", reason=problem)
