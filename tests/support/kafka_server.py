"""A Kafka broker for tests, on loopback, with a separate directory."""

import contextlib
import importlib
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.ports import free_port
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.server_process import ServerProcess, home_of

# Written by `make servers`.
CLASS_PATH = Path(__file__).resolve().parents[2] / ".cache" / "kafka.classpath"
needs_kafka = pytest.mark.skipif(not CLASS_PATH.exists(), reason="`make servers` has not been run")

_START_S = PATIENCE_S
_CLUSTER = "Y2xlYW5jdXQtdGVzdHMtMQ"
_JAVA = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
# Short timeouts after a kill, and one replica of everything, because there is one broker.
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
num.partitions=2
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


class KafkaBroker(ServerProcess):
    """A broker that can be killed and started again.

    Attributes:
        servers: the bootstrap servers for clients.
    """

    def __init__(self, home: Path) -> None:
        self._port, control = free_port(), free_port()
        self.servers = f"127.0.0.1:{self._port}"
        super().__init__(home)
        self._properties = home / "server.properties"
        self._properties.write_text(
            _PROPERTIES.format(port=self._port, control=control, data=home / "data")
        )

    def _command(self, *arguments: str) -> list[str]:
        return [*_JAVA, "-cp", CLASS_PATH.read_text(), *arguments]

    def make(self) -> None:
        """Creates its directory."""
        arguments = ["format", "--standalone", "-t", _CLUSTER, "-c", str(self._properties)]
        made = subprocess.run(
            self._command("kafka.tools.StorageTool", *arguments),
            capture_output=True,
            timeout=_START_S,
        )
        assert made.returncode == 0, made.stderr.decode(errors="replace")

    def start(self) -> None:
        """Starts the broker, and waits until it answers."""
        from confluent_kafka import KafkaException

        self.launch(
            self._command("kafka.Kafka", str(self._properties)),
            lambda: self.admin().list_topics(timeout=2),
            KafkaException,
            within_s=_START_S,
            every_s=0,
        )

    def admin(self) -> Any:
        """Returns an admin client."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 2})

    def make_topic(self, name: str, partitions: int = 2, **settings: str) -> None:
        """Creates a topic, and waits for it."""
        # The stubs of its types are incomplete.
        admin_api: Any = importlib.import_module("confluent_kafka.admin")
        config = {key.replace("_", "."): value for key, value in settings.items()}
        topic = admin_api.NewTopic(
            name, num_partitions=partitions, replication_factor=1, config=config
        )
        # Referenced until it has answered.
        admin = self.admin()
        admin.create_topics([topic])[name].result(PATIENCE_S)

    def remake_topic(self, name: str, partitions: int) -> None:
        """Deletes and creates a topic."""
        self.delete_topic(name)
        self.make_topic(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic, if it exists, and waits for the deletion."""
        admin = self.admin()
        if name in admin.list_topics(timeout=PATIENCE_S).topics:
            admin.delete_topics([name])[name].result(PATIENCE_S)
        # The broker deletes it shortly after the response.
        wait_until(lambda: name not in admin.list_topics(timeout=PATIENCE_S).topics, every_s=0.1)

    def write(self, topic: str, records: Iterable[Any]) -> None:
        """Writes records that were read earlier, with their partitions and headers."""
        import confluent_kafka as kafka

        producer = kafka.Producer({"bootstrap.servers": self.servers, "log_level": 2})
        for record in records:
            producer.produce(
                topic,
                record.value(),
                record.key(),
                partition=record.partition(),
                headers=record.headers(),
            )
        assert producer.flush(PATIENCE_S) == 0

    def records(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """Returns the messages of a topic, as a new consumer sees them now."""
        import confluent_kafka as kafka

        topics = self.admin().list_topics(timeout=PATIENCE_S).topics
        if topic not in topics:
            return []
        parts = set(topics[topic].partitions)
        reader = kafka.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "log_level": 2,
            }
        )
        read = []
        try:
            reader.assign([kafka.TopicPartition(topic, p, kafka.OFFSET_BEGINNING) for p in parts])
            deadline = time.monotonic() + PATIENCE_S
            while parts:
                assert time.monotonic() < deadline, f"{topic} was not read to its end"
                message: Any = reader.poll(0.5)
                if message is None:
                    continue
                if message.error() is None:
                    read.append(message)
                elif message.error().code() == kafka.KafkaError._PARTITION_EOF:
                    parts.discard(message.partition())
        finally:
            reader.close()
        return read


@contextlib.contextmanager
def kafka_broker() -> Iterator[KafkaBroker]:
    """Starts a broker, and stops it by its process."""
    with home_of("kafka") as home:
        broker = KafkaBroker(home)
        try:
            broker.make()
            broker.start()
            yield broker
        finally:
            broker.stop()
