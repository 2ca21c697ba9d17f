"""The names of Spark's own files of a checkpoint that a restart requires."""

import re

METADATA = "metadata"
DIRECTORIES = ("offsets", "commits", "sources", "state")

# Names with a dot are those of checksums and of files being written.
_FILE = "[^/.][^/]*"

NUMBERED = re.compile(r"(offsets|commits)/([0-9]+)")
# A source is named by its number or its name.
OF_SOURCES = re.compile(rf"sources/{_FILE}/{_FILE}")
OF_OPERATORS = re.compile(rf"state/[0-9]+/_metadata/(.+/)?{_FILE}")
# Another state store provider has its own files below `state`.
OF_STATE = re.compile(
    rf"{OF_OPERATORS.pattern}"
    rf"|state/[0-9]+/_stateSchema/(.+/)?{_FILE}"
    r"|state/[0-9]+/[0-9]+/(.+/)?_metadata/schema"
)


def is_sparks(name: str) -> bool:
    """Whether a file in one of the directories is Spark's own."""
    return any(kind.fullmatch(name) for kind in (NUMBERED, OF_SOURCES, OF_STATE))
