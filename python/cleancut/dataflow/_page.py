"""A page about a dataflow: its graph, the position of each query, and the reasons for lag."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Protocol

from cleancut._display import charts, html
from cleancut._display.info_list import InfoList
from cleancut.dataflow._model.infos import DataflowCut, DataflowInFlight, DataflowStatus

_STYLE = (
    "<style>:root{color-scheme:light dark}"
    "body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;padding:1em;max-width:75em}"
    "h1{font-size:1.3em;overflow-wrap:anywhere}h2{font-size:1.1em;margin:1.6em 0 .4em}"
    "table{font-size:.9em}th,td{border-bottom:1px solid GrayText}"
    ":focus-visible{outline:2px solid Highlight}</style>"
)
_MS = timedelta(milliseconds=1)


class _Shown(Protocol):
    """The methods of a dataflow that a page needs."""

    def status(self) -> DataflowStatus: ...
    def cuts(self) -> InfoList[DataflowCut]: ...
    def in_flight(self) -> InfoList[DataflowInFlight]: ...


def page(flow: _Shown, now: datetime) -> str:
    """An HTML document, without scripts or other files.

    Args:
        flow: the dataflow.
        now: the current time.
    """
    status = flow.status()
    title = f"Dataflow {status.location}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        html.text(f"As of {now:%Y-%m-%d %H:%M:%S} UTC."),
        status._repr_html_(),
    ]
    if status.last is not None:
        cuts = flow.cuts()
        parts += [
            _headed("In flight, at the last cut", flow.in_flight()._repr_html_()),
            _headed("How old each member was", _ages(cuts)),
            _headed("Cuts", InfoList(reversed(cuts))._repr_html_()),
        ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title>{_STYLE}</head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _headed(title: str, inner: str) -> str:
    return f"<h2>{escape(title)}</h2>{inner}"


def _ages(cuts: Sequence[DataflowCut]) -> str:
    """For each member, the age of its cut at each cut of the dataflow."""
    by_member: Mapping[str, list[int | None]] = defaultdict(list)
    for cut in cuts:
        for member in cut.members:
            age = None if member.written is None else (cut.written - member.written) // _MS
            by_member[member.name].append(age)
    drawn = [
        (f"{name}, ms", charts.sparkline(f"{name}, ms", values), known[-1])
        for name, values in by_member.items()
        if (known := [value for value in values if value is not None])
    ]
    return html.courses(drawn) or html.text("(none)")
