"""Restores Spark's own files from a cut."""

import json

from cleancut._checkpoint.read.cut_reader import CutReader
from cleancut._checkpoint.read.root import Root
from cleancut._checkpoint.verify.spark_entries import query_id_of
from cleancut._format.envelope import cut_damaged
from cleancut._format.spark.spark_names import METADATA
from cleancut.errors import CorruptedError, error_of


def restore_metadata(root: Root) -> str:
    """Writes Spark's file with the query id, if it is missing; returns the id.

    Raises:
        RequestError: CLEANCUT_STATE_NOT_FOUND, no cut has the id.
        CorruptedError: CLEANCUT_CUT_CORRUPTED, the file exists with another id.
    """
    query = _query_id(root)
    if query is None:
        wanted, available = "id of the query in a cut", "no intact cut that has it"
        raise error_of(
            "CLEANCUT_STATE_NOT_FOUND", location=root.location, wanted=wanted, available=available
        )
    # As Spark writes it, so that an existing checksum file stays valid.
    data = json.dumps({"id": query}, separators=(",", ":")).encode()
    files = root.checkpoint
    if not files.create(METADATA, data) and query_id_of(files.read(METADATA)) != query:
        detail = f"it is not that of the query {query}; move it away, then restore it again"
        raise cut_damaged(files.path(METADATA), detail)
    return query


def _query_id(root: Root) -> str | None:
    reader = CutReader(root.objects)
    for epoch in reversed(root.epochs()):
        try:
            cut = reader.cut(epoch)
        except (CorruptedError, FileNotFoundError):
            continue
        if cut.query_id is not None:
            return cut.query_id
    return None
