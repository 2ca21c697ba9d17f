"""Pages of the documentation with a part that is generated, between two marks."""

from pathlib import Path

_END = "<!-- until here -->"


def written(page: Path, begin: str) -> str:
    """Returns the part of a page between the marks.

    Args:
        page: the page.
        begin: the first mark.

    Raises:
        ValueError: if the page does not have the marks.
    """
    return _divided(page, begin)[1].removesuffix("\n")


def update(page: Path, begin: str, text: str) -> None:
    """Replaces the part of a page between the marks.

    Args:
        page: the page.
        begin: the first mark.
        text: the new part.

    Raises:
        ValueError: if the page does not have the marks.
    """
    before, _, after = _divided(page, begin)
    page.write_text(f"{before}{begin}\n{text}\n{_END}{after}", encoding="utf-8")


def _divided(page: Path, begin: str) -> tuple[str, str, str]:
    before, mark, rest = page.read_text(encoding="utf-8").partition(f"{begin}\n")
    part, end, after = rest.partition(_END)
    if not (mark and end):
        raise ValueError(f"{page} does not have {begin} before {_END}")
    return before, part, after
