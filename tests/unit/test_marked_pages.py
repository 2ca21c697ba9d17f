"""The generated part of a page is replaced, and nothing else of the page."""

from pathlib import Path

import pytest

from tests.support import marked_pages

BEGIN, END = "<!-- made by a test -->", "<!-- until here -->"


@pytest.mark.parametrize("before", ["", "old\n", "old\n\nlines\n"])
def test_the_rest_of_the_page_remains(tmp_path: Path, before: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{BEGIN}\n{before}{END}\n\n## Limitations\n\n- One.\n")
    marked_pages.update(page, BEGIN, "new\nlines")
    assert (
        page.read_text() == f"# Title\n\n{BEGIN}\nnew\nlines\n{END}\n\n## Limitations\n\n- One.\n"
    )
    assert marked_pages.written(page, BEGIN) == "new\nlines"


@pytest.mark.parametrize("text", ["no marks", f"{BEGIN}\nno end", f"no begin\n{END}"])
def test_a_page_without_its_marks_is_refused(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=r"page\.md"):
        marked_pages.update(page, BEGIN, "new")
    assert page.read_text() == text
