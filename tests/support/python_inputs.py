"""The inputs of randomized Python queries, so that each possible pair of values occurs."""

from tests.input_coverage.covering import CoveringSelections
from tests.input_coverage.space import Dimension, Impossible, InputSpace
from tests.support.lines import ROWS_OF_PROCESSORS
from tests.support.python_keys import KEY_TYPES

FORM, KEY_TYPE, TIME_MODE, STATE = "form", "type of keys", "time mode", "state"
RESULTS, EARLY_ENDS, TTL_MS = "most results of a row", "calls that end early", "TTL in ms"
PARTITIONS, BATCH_ROWS, SPLITS_GROUPS = "partitions", "rows of a batch", "splits groups"
FIRST_MODE, NEXT_MODE = "mode of the first start", "mode of the second start"
FILES, KILLS, STOPS = "files", "killed workers", "stops"
FAILURES, MUTATES, NESTED = "failures of the function", "mutates its arguments", "nested columns"

MODES = ("unaligned", "unaligned", "unaligned", "auto", "aligned")
# Kinds of state variables.
VARIABLES = ("value", "other", "list", "map")

_FORMS = ("frames", "groups", *(["rows"] if ROWS_OF_PROCESSORS.is_here else []))
_OF_PROCESSORS = [form for form in _FORMS if form != "groups"]
# Key types that only rows support.
_OF_ROWS = [name for name, kind in KEY_TYPES.items() if not kind.is_for_frames]
_KEYS = sorted(name for name in KEY_TYPES if "rows" in _FORMS or name not in _OF_ROWS)
_TTLS = (1, 300, 3_600_000)
_TTL_NAMES = [str(ttl) for ttl in _TTLS]
_FLAG = (False, True)

SPACE = InputSpace(
    "Python queries with state",
    [
        Dimension(FORM, _FORMS),
        Dimension(KEY_TYPE, _KEYS),
        Dimension(TIME_MODE, ("None", "EventTime", "ProcessingTime")),
        Dimension(STATE, (*VARIABLES, "timer", "timeout")),
        Dimension(RESULTS, (1, 2, 3)),
        Dimension(EARLY_ENDS, (False, False, True)),
        Dimension(TTL_MS, (None, *_TTLS)),
        Dimension(PARTITIONS, (1, 2, 3)),
        Dimension(BATCH_ROWS, (1, 2, 7, 64, 1000, 10_000)),
        Dimension(SPLITS_GROUPS, (True, True, False)),
        Dimension(FIRST_MODE, MODES),
        Dimension(NEXT_MODE, MODES),
        Dimension(FILES, (3, 3, 4)),
        Dimension(KILLS, (0, 1, 1, 2)),
        Dimension(STOPS, (0, 0, 0, 1, 1, 2)),
        Dimension(FAILURES, (0, 1, 3)),
        Dimension(MUTATES, _FLAG),
        Dimension(NESTED, (False, False, True)),
    ],
    [
        Impossible((STATE, ["timer"]), (TIME_MODE, ["None"]), "Spark refuses timers"),
        Impossible((STATE, ["timeout"]), (TIME_MODE, ["None"]), "Spark refuses timeouts"),
        Impossible(
            (STATE, ["other", "list", "map", "timer"]),
            (FORM, ["groups"]),
            "`applyInPandasWithState` has one value and a timeout",
        ),
        Impossible((STATE, ["timeout"]), (FORM, _OF_PROCESSORS), "processors have timers"),
        Impossible(
            (TTL_MS, _TTL_NAMES),
            (TIME_MODE, ["None", "EventTime"]),
            "Spark requires processing time for TTL",
        ),
        Impossible((TTL_MS, _TTL_NAMES), (FORM, ["groups"]), "only processors have TTL"),
        Impossible((TTL_MS, _TTL_NAMES), (STATE, ["timeout"]), "only processors have TTL"),
        Impossible(
            (KEY_TYPE, [name for name in _OF_ROWS if name in _KEYS]),
            (FORM, ["frames", "groups"]),
            "pandas changes such keys",
        ),
        Impossible(
            (KEY_TYPE, [name for name in _OF_ROWS if name in _KEYS]),
            (STATE, ["timeout"]),
            "pandas changes such keys, and functions on rows have no timeout",
        ),
        Impossible(
            (NESTED, ["True"]),
            (FORM, ["groups"]),
            "the function of `applyInPandasWithState` has fixed columns",
        ),
        Impossible(
            (NESTED, ["True"]),
            (STATE, ["timeout"]),
            "the function of `applyInPandasWithState` has fixed columns",
        ),
    ],
)
SELECTIONS = CoveringSelections(SPACE, 64)
