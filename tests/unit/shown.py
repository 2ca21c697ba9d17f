"""What a notebook makes of HTML: its tables and drawings, and that nothing in it runs or loads."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_RUNS_OR_LOADS = re.compile(r"<script|<iframe|\son\w+=|\ssrc=|\shref=|url\(|@import|javascript:")


class Shown:
    """One output.

    Attributes:
        names: of the columns of its last table.
        rows: of that table, as text.
        drawings: its drawings, each with a role.
        styles: its rules.
        words: all text outside of drawings.
    """

    def __init__(self, html: str) -> None:
        found = _RUNS_OR_LOADS.search(html)
        assert not found, found
        parser = _Tables()
        parser.feed(html)
        parser.close()
        self.names = parser.names
        self.rows = [tuple(row) for row in parser.rows]
        self.words = " ".join(parser.words)
        self.styles = "".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
        # Each is XML as it stands, so every name and value in it is escaped.
        self.drawings: list[Element] = [
            ElementTree.fromstring(of) for of in re.findall(r"<svg.*?</svg>", html, re.DOTALL)
        ]

    def column(self, name: str) -> list[str]:
        """The cells of a column."""
        at = self.names.index(name)
        return [row[at] for row in self.rows]

    def spoken(self) -> list[Element]:
        """The drawings that a screen reader speaks of: each has a name; the others are hidden."""
        spoken = [of for of in self.drawings if of.get("role") == "img"]
        for drawing in spoken:
            title = drawing.find("title")
            assert title is not None
            assert drawing.get("aria-label") == title.text
            assert title.text
        hidden = [of for of in self.drawings if of not in spoken]
        assert all(of.get("aria-hidden") == "true" for of in hidden)
        return spoken


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
