"""Links, anchors, pictures and navigation of the documentation."""

import re
import runpy
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.test_tidy import ROOT, named, tracked

PAGES = tracked(".md")
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
# Pages of the site that are stored in the root of the repository.
FROM_ROOT = {"CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}


def prose(page: Path) -> str:
    """Returns a page without its code."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"`[^`\n]*`", "``", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings on which all renderers of Markdown agree."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.M):
        kept = re.sub(r"[^\w\s-]", "", heading).strip().lower()
        forge, site = re.sub(r"\s", "-", kept), re.sub(r"[-\s]+", "-", kept)
        if forge == site and forge not in anchors:
            anchors.add(forge)
    return anchors


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for markdown, html in LINK.findall(prose(page)):
            yield page, markdown or html


def broken(page: Path, link: str) -> str | None:
    path, _, anchor = link.partition("#")
    if "://" in path:
        return None
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return f"{named(page)}: {link}: there is no such file"
    if anchor and (target.suffix != ".md" or anchor not in anchors(target)):
        return f"{named(page)}: {link}: there is no such heading"
    return None


def test_links_lead_to_existing_pages_and_headings() -> None:
    checked = list(links())
    assert len(checked) > 50
    assert [problem for page, link in checked if (problem := broken(page, link))] == []


@pytest.mark.parametrize("link", ["docs/nowhere.md", "CONTRIBUTING.md#no-such-heading"])
def test_a_dead_link_is_reported(link: str) -> None:
    assert broken(ROOT / "README.md", link) is not None


def test_the_site_has_each_page_once() -> None:
    in_nav = re.findall(r"([\w/.-]+\.md)$", NAV, flags=re.M)
    inside = {named(page).removeprefix("docs/") for page in PAGES if named(page)[:5] == "docs/"}
    assert sorted(in_nav) == sorted(inside | FROM_ROOT)


@pytest.mark.parametrize(
    ("question", "page"),
    [
        ("can I try it on my query and return", "get-started/try-it.md"),
        ("what does it cost", "deploy/sizing.md"),
        ("how do I run it on Kubernetes", "deploy/kubernetes.md"),
        ("how do I run it on EMR", "get-started/starting/emr.md"),
        ("what do I do about an error at night", "operate/troubleshoot.md"),
        ("how do I upgrade", "operate/upgrading.md"),
        ("when does it not fit", "concepts/alternatives.md"),
    ],
)
def test_the_readme_links_to_the_answer_of_a_question(question: str, page: str) -> None:
    assert f"](docs/{page})" in (ROOT / "README.md").read_text(encoding="utf-8"), question


def test_a_group_of_the_site_has_at_most_nine_pages() -> None:
    def sizes(title: str, pages: list[Any]) -> Iterator[tuple[str, int]]:
        yield title, len(pages)
        for page in pages:
            for name, inner in page.items() if isinstance(page, dict) else ():
                if isinstance(inner, list) and name != "Design":
                    yield from sizes(name, inner)

    assert {title: size for title, size in sizes("all", yaml.safe_load(NAV)) if size > 9} == {}


@pytest.mark.parametrize("words", ["rocksdb migrate", "uninstall", "security", "cost"])
def test_a_heading_has_the_words_that_a_user_searches_for(words: str) -> None:
    """The search of the site ranks titles and headings first."""
    headings = [
        heading.lower()
        for page in PAGES
        if "/design/" not in named(page)
        for heading in re.findall(r"^#+ (.*)$", prose(page), flags=re.M)
    ]
    assert any(all(word in heading for word in words.split()) for heading in headings)


def test_links_of_the_repository_are_those_of_the_site() -> None:
    site = runpy.run_path(str(ROOT / "project/site_pages.py"))
    link = site["site_link"]
    assert link("CONTRIBUTING.md", "docs/use/sinks.md") == "use/sinks.md"
    assert link("use/sinks.md", "../../CONTRIBUTING.md") == "../CONTRIBUTING.md"
    assert link("use/sinks.md", "object-stores.md") == "object-stores.md"
    assert link("CONTRIBUTING.md", "https://example.org/a") == "https://example.org/a"


def test_pictures_are_drawings_with_a_title_for_light_and_dark() -> None:
    pictures = tracked(".svg")
    assert pictures
    for picture in pictures:
        text = picture.read_text(encoding="utf-8")
        assert ElementTree.fromstring(text).tag.endswith("svg")
        assert "<title" in text
        assert "prefers-color-scheme: dark" in text


def site_urls() -> Iterator[tuple[Path, str]]:
    """Yields the addresses of the site in what users get: package, jars, and their messages."""
    for path in tracked(".py", ".scala", ".json", ".yml"):
        if named(path).startswith(
            ("python/cleancut/", "jvm/core/src/main/", "jvm/spark/src/main/")
        ):
            text = path.read_text(encoding="utf-8")
            for url in re.findall(r"https://cleancut\.io/([\w/.-]+\.html(?:#[\w-]+)?)", text):
                yield path, url


def test_addresses_of_the_site_lead_to_pages_and_headings() -> None:
    urls = list(site_urls())
    assert len({url for _, url in urls}) > 10
    for path, url in urls:
        link = f"{ROOT}/docs/{url.replace('.html', '.md')}"
        assert broken(path, link) is None


def test_an_unpublished_package_is_installed_from_its_file() -> None:
    texts = tracked(".md", ".py", ".json", ".scala", ".ipynb")
    named_only = re.compile(r"pip install (?:[\w-]+ )*['\"]?cleancut(?![-\w]*\.whl|-)")
    matches = [
        f"{named(path)}: {match}"
        for path in texts
        if "tests/" not in named(path)
        for match in named_only.findall(path.read_text(encoding="utf-8"))
    ]
    assert matches == []
    assert named_only.search("pip install 'cleancut[s3]'")
