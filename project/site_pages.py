"""Pages of the site outside of docs/; mkdocs calls these functions by name."""

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
# Pages that contain many terms and seldom answer a user's question.
_RANKED_LAST = ("design/", "project/", "reference/python-api", "FORMAT", "PROTOCOL", "campaigns")
_LINK = re.compile(r"(\]\(|(?:src|href)=\")([^)#\"\s]+)")


def on_config(config: Any) -> Any:
    """Adds the version to the name of the site."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.site_name = f"{config.site_name} {project['version']}"
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages in the root of the repository."""
    from mkdocs.structure.files import File

    for name in _PAGES:
        text = (_ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Converts links of the repository to those of the site, and ranks designs last in a search."""
    if page.file.src_uri.startswith(_RANKED_LAST):
        page.meta["search"] = {"boost": 0.2}
    return _LINK.sub(lambda match: match[1] + site_link(page.file.src_uri, match[2]), markdown)


def site_link(page: str, target: str) -> str:
    """Returns the link of the site for a link of the repository.

    Args:
        page: the name of the page on the site.
        target: the target of the link, without an anchor.
    """
    if "://" in target or target.startswith("mailto:"):
        return target
    inside = page if page in _PAGES else f"docs/{page}"
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(inside), target))
    on_site = whole.removeprefix("docs/")
    return posixpath.relpath(on_site, posixpath.dirname(page) or ".")
