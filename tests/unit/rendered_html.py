"""Parses the HTML of a notebook cell: tables and drawings, and the absence of scripts and loaded
files.
"""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_RUNS_OR_LOADS = re.compile(r"<script|<iframe|\son\w+=|\ssrc=|\shref=|url\(|@import|javascript:")


class RenderedHtml:
    """One output.

    Attributes:
        names: of the columns of its last table.
        rows: of that table, as text.
        drawings: its drawings, each with a role.
        styles: its rules.
        words: all text outside of drawings.
    """

    def __init__(self, html: str) -> None:
        script = _RUNS_OR_LOADS.search(html)
        assert not script, script
        parser = _Tables()
        parser.feed(html)
        parser.close()
        self.names = parser.names
        self.rows = [tuple(row) for row in parser.rows]
        self.words = " ".join(parser.words)
        self.styles = "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
        # Each drawing is valid XML, so all names and values in it are escaped.
        self.drawings: list[Element] = [
            ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL)
        ]

    def column(self, name: str) -> list[str]:
        """The cells of a column."""
        at = self.names.index(name)
        return [row[at] for row in self.rows]

    def labelled_drawings(self) -> list[Element]:
        """Returns the named drawings, which a screen reader announces; all others are hidden."""
        labelled = [drawing for drawing in self.drawings if drawing.get("role") == "img"]
        for drawing in labelled:
            title = drawing.find("title")
            assert title is not None
            assert drawing.get("aria-label") == title.text
            assert title.text
        hidden = [drawing for drawing in self.drawings if drawing not in labelled]
        assert all(drawing.get("aria-hidden") == "true" for drawing in hidden)
        return labelled


class _Tables(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.rows: list[list[str]] = []
        self.words: list[str] = []
        self._cell: list[str] | None = None
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.names, self.rows = [], []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self._cell = []
        elif tag in ("svg", "style"):
            self._silent += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td") and self._cell is not None:
            self.rows[-1].append("".join(self._cell).strip())
            self._cell = None
        elif tag == "thead":
            (self.names,), self.rows = self.rows[:1], []
        elif tag in ("svg", "style"):
            self._silent -= 1

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._cell is not None:
            self._cell.append(data)
        if data.strip():
            self.words.append(data.strip())
