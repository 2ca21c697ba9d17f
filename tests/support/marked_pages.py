"""Pages of the documentation with a part that is generated, between two marks."""

from pathlib import Path

_END = "<!-- until here -->"


def written(page: Path, begin: str) -> str:
    """Returns the part of a page between the marks.

    Args:
        page: the page.
        begin: the first mark.
    """
    return page.read_text(encoding="utf-8").partition(f"{begin}\n")[2].partition(f"\n{_END}")[0]


def update(page: Path, begin: str, text: str) -> None:
    """Replaces the part of a page between the marks.

    Args:
        page: the page.
        begin: the first mark.
        text: the new part.
    """
    before, _, rest = page.read_text(encoding="utf-8").partition(f"{begin}\n")
    after = rest.partition(f"\n{_END}")[2]
    page.write_text(f"{before}{begin}\n{text}\n{_END}{after}", encoding="utf-8")
