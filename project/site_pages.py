"""What the site takes from outside of docs/: for mkdocs, which calls these functions by name."""

import posixpath
import re
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
_LINK = re.compile(r"(\]\(|(?:src|href)=\")([^)#\"\s]+)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that lie at the root of the repository."""
    from mkdocs.structure.files import File

    for name in _PAGES:
        text = (_ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links of the repository into those of the site."""
    return _LINK.sub(lambda match: match[1] + site_link(page.file.src_uri, match[2]), markdown)


def site_link(page: str, target: str) -> str:
    """A link that is written for the repository, as the site needs it.

    Args:
        page: its name on the site.
        target: of the link, without an anchor.
    """
    if "://" in target or target.startswith("mailto:"):
        return target
    inside = page if page in _PAGES else f"docs/{page}"
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(inside), target))
    on_site = whole.removeprefix("docs/")
    return posixpath.relpath(on_site, posixpath.dirname(page) or ".")
