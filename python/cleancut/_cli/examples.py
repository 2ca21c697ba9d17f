"""One example of each command, by the name of its parser. Tests parse all of them."""

from collections.abc import Mapping

_DATAFLOW = "cleancut dataflow LOCATION"
_FLOW = "cleancut dataflow s3://bucket/dataflow"

EXAMPLES: Mapping[str, str] = {
    "cleancut": "cleancut ls checkpoints/orders",
    "cleancut assets": "cleancut assets monitoring",
    "cleancut conf": "cleancut conf --cuts true --mode unaligned --format properties",
    "cleancut jars": "cleancut jars --separator ,",
    "cleancut ls": "cleancut ls checkpoints/orders",
    "cleancut show": "cleancut show checkpoints/orders --at 120",
    "cleancut history": "cleancut history checkpoints/orders --since 2026-11-26T08:00",
    "cleancut costs": "cleancut costs s3://bucket/checkpoints/orders",
    "cleancut state": "cleancut state checkpoints/orders --operator 0 --limit 10",
    "cleancut families": "cleancut families checkpoints/orders --operator 0",
    "cleancut diff": "cleancut diff checkpoints/orders 119 120 --operator 0",
    "cleancut lookup": "cleancut lookup checkpoints/orders --operator 0 --key Berlin",
    "cleancut skew": "cleancut skew checkpoints/orders",
    "cleancut in-flight": "cleancut in-flight checkpoints/orders --operator 0",
    "cleancut verify": "cleancut verify checkpoints/orders",
    "cleancut test-restore": "cleancut test-restore checkpoints/orders --at before-upgrade",
    "cleancut restore-metadata": "cleancut restore-metadata checkpoints/orders",
    "cleancut replicate": "cleancut replicate checkpoints/orders s3://standby/orders --every 60",
    "cleancut fence": "cleancut fence checkpoints/orders --reason 'failover to site B'",
    "cleancut expire": "cleancut expire checkpoints/orders --retain-last 100 --retain-for 7d",
    "cleancut gc": "cleancut gc checkpoints/orders --apply",
    "cleancut savepoint": "cleancut savepoint list checkpoints/orders",
    "cleancut savepoint create": "cleancut savepoint create checkpoints/orders before-upgrade",
    "cleancut savepoint drop": "cleancut savepoint drop checkpoints/orders before-upgrade",
    "cleancut savepoint list": "cleancut savepoint list checkpoints/orders",
    "cleancut convert": "cleancut convert checkpoints/orders --provider cleancut --apply",
    "cleancut rescale": "cleancut rescale checkpoints/orders --partitions 64 --apply",
    "cleancut rollback": "cleancut rollback checkpoints/orders --to-epoch 118 --apply",
    "cleancut clone": "cleancut clone checkpoints/orders checkpoints/orders-trial --apply",
    "cleancut check-compatibility": (
        "cleancut check-compatibility checkpoints/orders --query orders:counts"
    ),
    "cleancut exporter": "cleancut exporter s3://bucket/checkpoints/orders --port 9464",
    "cleancut top": "cleancut top checkpoints/orders --sort ms",
    "cleancut completion": "cleancut completion bash",
    "cleancut dataflow": f"{_FLOW} status",
    f"{_DATAFLOW} status": f"{_FLOW} status",
    f"{_DATAFLOW} members": f"{_FLOW} members",
    f"{_DATAFLOW} edges": f"{_FLOW} edges",
    f"{_DATAFLOW} cuts": f"{_FLOW} cuts",
    f"{_DATAFLOW} history": f"{_FLOW} history",
    f"{_DATAFLOW} page": f"{_FLOW} page --out dataflow.html",
    f"{_DATAFLOW} add": f"{_FLOW} add counts s3://bucket/checkpoints/counts",
    f"{_DATAFLOW} remove": f"{_FLOW} remove counts",
    f"{_DATAFLOW} move-channel": (f"{_FLOW} move-channel s3://bucket/orders s3://standby/orders"),
    f"{_DATAFLOW} cut": f"{_FLOW} cut --name before-upgrade",
    f"{_DATAFLOW} run": f"{_FLOW} run --interval 60s",
    f"{_DATAFLOW} savepoint": f"{_FLOW} savepoint create before-upgrade",
    f"{_DATAFLOW} savepoint create": f"{_FLOW} savepoint create before-upgrade --at 7",
    f"{_DATAFLOW} savepoint drop": f"{_FLOW} savepoint drop before-upgrade",
    f"{_DATAFLOW} show": f"{_FLOW} show --at 7",
    f"{_DATAFLOW} in-flight": f"{_FLOW} in-flight",
    f"{_DATAFLOW} verify": f"{_FLOW} verify",
    f"{_DATAFLOW} test-restore": f"{_FLOW} test-restore --at before-upgrade",
    f"{_DATAFLOW} expire": f"{_FLOW} expire --retain-last 10 --apply",
    f"{_DATAFLOW} rollback": f"{_FLOW} rollback --to before-upgrade --apply",
    f"{_DATAFLOW} clone": (
        f"{_FLOW} clone s3://bucket/trial --member counts s3://bucket/trial/counts --apply"
    ),
}
