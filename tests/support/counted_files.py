"""A count by key over files, one per epoch."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

ROWS = 300


class CountedFiles:
    """The files, and the count of their rows.

    Attributes:
        source: the directory of the files.
        files: the number of files.
    """

    def __init__(self, directory: Path, *, keys: int) -> None:
        self.source = directory / "source"
        self.source.mkdir(exist_ok=True)
        self.files = 0
        self._keys = keys

    def add(self, files: int = 1) -> None:
        for _ in range(files):
            rows = "\n".join(f'{{"k": {(self.files * 37 + i) % self._keys}}}' for i in range(ROWS))
            path = self.source / f"{self.files:04d}.json"
            # A running query reads only complete files.
            hidden = path.with_name(f".{path.name}")
            hidden.write_text(rows, encoding="utf-8")
            hidden.rename(path)
            self.files += 1

    def counted(self, session: SparkSession) -> DataFrame:
        """Returns the stream of `k` and `count`, one file per epoch."""
        reader = session.readStream.schema("k long").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.source)).groupBy("k").count()
