"""A dataflow as a page: its drawing, its text and its server."""

import random
import re
import signal
import subprocess
import sys
import threading
from html import unescape
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen
from xml.etree import ElementTree

import pytest

from cleancut import Dataflow
from cleancut._cli import main as _cli
from cleancut._cli.dataflow_page import PageServer
from cleancut._display.graphs import Arrow, Node, graph
from tests.support.draws import draws
from tests.support.flow_pair import Pair
from tests.support.patience import PATIENCE_S


def parsed(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def boxes(drawing: str) -> dict[str, tuple[float, float, float, float]]:
    """Returns left, top, right and bottom of each box, by its first line."""
    boxes_by_name = {}
    for group in parsed(drawing).iter("g"):
        box = group.find("rect")
        if box is not None:
            x, y, width, height = (
                float(box.attrib[side]) for side in ("x", "y", "width", "height")
            )
            name = group.find("text")
            assert name is not None
            assert name.text is not None
            boxes_by_name[name.text] = x, y, x + width, y + height
    return boxes_by_name


def ends(drawing: str) -> list[tuple[str, tuple[float, float], tuple[float, float]]]:
    """Returns the text of each arrow with its start and end."""
    arrows = []
    for group in parsed(drawing).iter("g"):
        path, text = group.find("path"), group.find("text")
        if path is not None and text is not None:
            numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path.attrib["d"])]
            x, y = numbers[-2:]
            if "V" in path.attrib["d"]:
                # A loop ends directly below its head.
                x, y = numbers[-3], numbers[-1]
            arrows.append((str(text.text), (numbers[0], numbers[1]), (x, y)))
    return arrows


@pytest.mark.parametrize("seed", range(draws(40)))
def test_boxes_do_not_overlap_and_arrows_connect_them(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"q{at}" for at in range(draw.randrange(1, 9))]
    pairs = [(draw.choice(names), draw.choice(names)) for _ in range(draw.randrange(12))]
    if seed % 2:
        # Without loops, also if no box comes before those that it sends to.
        order = draw.sample(names, len(names))
        at_all = [(min(pair, key=order.index), max(pair, key=order.index)) for pair in pairs]
        pairs = [(tail, head) for tail, head in at_all if tail != head]
    arrows = [Arrow(tail, head, f"{at}: {tail} {head}") for at, (tail, head) in enumerate(pairs)]
    drawing = graph([Node(name, "epoch 1") for name in names], arrows, "queries")
    where = boxes(drawing)
    whole = parsed(drawing)
    assert set(where) == set(names)
    for left, top, right, bottom in where.values():
        assert left >= 0
        assert top >= 0
        assert right <= float(whole.attrib["width"])
        assert bottom <= float(whole.attrib["height"])
    for a in names:
        for b in names:
            apart = [where[a][2] < where[b][0], where[b][2] < where[a][0]]
            apart += [where[a][3] < where[b][1], where[b][3] < where[a][1]]
            assert a == b or any(apart), (a, b)
    drawn = ends(drawing)
    assert sorted(text for text, _, _ in drawn) == sorted(arrow.text for arrow in arrows)
    for text, begin, end in drawn:
        _, tail, head = text.split()
        if end[1] == where[head][3]:
            assert begin[1] == where[tail][3]
            assert seed % 2 == 0, "there is no loop"
            assert where[head][0] <= end[0] <= where[head][2]
        else:
            assert begin[0] == where[tail][2] < where[head][0] == end[0]


def test_a_loop_is_closed_by_a_backward_arrow() -> None:
    nodes = [Node(name, "") for name in ("body", "head", "source")]
    arrows = [Arrow("body", "head", "back"), Arrow("head", "body", "on")]
    drawing = graph(nodes, [*arrows, Arrow("source", "head", "in")], "a loop")
    where = boxes(drawing)
    assert where["source"][0] < where["head"][0] < where["body"][0]
    assert [text for text, _, end in ends(drawing) if end[1] == where["head"][3]] == ["back"]
    assert graph([], [], "nothing") == ""


def test_names_are_escaped() -> None:
    drawing = graph([Node('<b>"&', "x < y", is_other=True)], [], 'a "graph" & more')
    assert "<b>" not in drawing
    (box,) = parsed(drawing).iter("rect")
    assert box.attrib["stroke-dasharray"]
    assert set(boxes(drawing)) == {'<b>"&'}


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair(str(tmp_path)).added()
    made.step()
    made.step()
    made.flow.cut(wait=False)
    return made


def test_a_page_has_the_status_of_the_dataflow(pair: Pair) -> None:
    page = pair.flow.page()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page), "it needs no other file"
    (drawing,) = (one for one in re.findall(r"<svg.*?</svg>", page, re.DOTALL) if "rect" in one)
    where = boxes(drawing)
    assert set(where) == {"a", "b"}
    assert [text for text, _, _ in ends(drawing)] == ["0 of 1"]
    assert "Queries connected by channels: a, b" in page
    assert [unescape(heading) for heading in re.findall(r"<h2>(.*?)</h2>", page)] == [
        "In flight, at the last cut",
        "How old each member was",
        "Cuts",
    ]
    assert pair.flow.location in page


def test_a_member_that_is_held_back_is_highlighted(pair: Pair) -> None:
    # By their cuts, it has consumed an epoch that its sender has not sent.
    pair.b.consume(pair.a, pair.a.epoch + 1)
    pair.b.run()
    status = pair.flow.status()
    assert set(status.reasons) == {"b"}
    drawing = next(
        svg for svg in re.findall(r"<svg.*?</svg>", status._repr_html_()) if "rect" in svg
    )
    dashed = [
        group for group in parsed(drawing).iter("g") if "stroke-dasharray" in str(attributes(group))
    ]
    assert [title(group) for group in dashed] == [f"b, epoch 2. {status.reasons['b']}"]


def attributes(group: ElementTree.Element) -> list[dict[str, str]]:
    return [rect.attrib for rect in group.iter("rect")]


def title(group: ElementTree.Element) -> str | None:
    element = group.find("title")
    return None if element is None else element.text


def test_a_dataflow_without_a_cut_has_a_page(tmp_path: Path) -> None:
    page = Pair(str(tmp_path)).added().flow.page()
    assert "not started" in page
    assert "<h2>" not in page


def test_each_request_returns_the_current_page(pair: Pair) -> None:
    with PageServer(pair.flow, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_address[1]}/"
        with urlopen(place, timeout=PATIENCE_S) as answer:
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            assert "0 of 1" in answer.read().decode()
        pair.step()
        with urlopen(place, timeout=PATIENCE_S) as answer:
            assert "1 of 2" in answer.read().decode()
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{place}favicon.ico", timeout=PATIENCE_S)
        server._flow = Dataflow(f"{pair.flow.location}/none")
        with pytest.raises(HTTPError, match="503") as failure:
            urlopen(place, timeout=PATIENCE_S)
        assert "CLEANCUT_DATAFLOW_NOT_FOUND" in failure.value.read().decode()
        server.shutdown()


def test_the_command_prints_writes_and_serves_the_page(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, out = pair.flow.location, tmp_path / "flow.html"
    assert _cli.main(["dataflow", place, "page"]) == _cli.OK
    printed = capsys.readouterr().out
    assert printed.startswith("<!doctype html>")
    assert _cli.main(["dataflow", place, "page", "--out", str(out)]) == _cli.OK
    assert out.read_text(encoding="utf-8").splitlines()[-1].endswith("</html>")
    command = [sys.executable, "-m", "cleancut", "dataflow", place, "page", "--port", "0"]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert serving.stdout is not None
        said = serving.stdout.readline()
        assert said.startswith(f"serving {place} at http://127.0.0.1:")
        with urlopen(said.split()[-1], timeout=PATIENCE_S) as answer:
            assert "0 of 1" in answer.read().decode()
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(PATIENCE_S) == _cli.OK
    finally:
        serving.kill()
        serving.wait()
