"""A dataflow as a page: what is drawn of its queries, what the page says, and how it is served."""

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
    """Left, top, right and bottom of each box, by its first line."""
    found = {}
    for group in parsed(drawing).iter("g"):
        box = group.find("rect")
        if box is not None:
            x, y, width, height = (float(box.attrib[of]) for of in ("x", "y", "width", "height"))
            name = group.find("text")
            assert name is not None
            assert name.text is not None
            found[name.text] = x, y, x + width, y + height
    return found


def ends(drawing: str) -> list[tuple[str, tuple[float, float], tuple[float, float]]]:
    """The text of each arrow, where it begins and where it ends."""
    found = []
    for group in parsed(drawing).iter("g"):
        path, text = group.find("path"), group.find("text")
        if path is not None and text is not None:
            numbers = [float(of) for of in re.findall(r"-?\d+(?:\.\d+)?", path.attrib["d"])]
            x, y = numbers[-2:]
            if "V" in path.attrib["d"]:
                # A loop ends straight below its head, where it was before.
                x, y = numbers[-3], numbers[-1]
            found.append((str(text.text), (numbers[0], numbers[1]), (x, y)))
    return found


@pytest.mark.parametrize("seed", range(draws(40)))
def test_boxes_stand_apart_and_arrows_go_from_one_to_another(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"q{at}" for at in range(draw.randrange(1, 9))]
    pairs = [(draw.choice(names), draw.choice(names)) for _ in range(draw.randrange(12))]
    if seed % 2:
        # Without loops, also where no box comes before those that it sends to.
        order = draw.sample(names, len(names))
        at_all = [(min(of, key=order.index), max(of, key=order.index)) for of in pairs]
        pairs = [(tail, head) for tail, head in at_all if tail != head]
    arrows = [Arrow(tail, head, f"{at}: {tail} {head}") for at, (tail, head) in enumerate(pairs)]
    drawing = graph([Node(of, "epoch 1") for of in names], arrows, "queries")
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
    assert sorted(text for text, _, _ in drawn) == sorted(of.text for of in arrows)
    for text, begin, end in drawn:
        _, tail, head = text.split()
        if end[1] == where[head][3]:
            assert begin[1] == where[tail][3]
            assert seed % 2 == 0, "there is no loop"
            assert where[head][0] <= end[0] <= where[head][2]
        else:
            assert begin[0] == where[tail][2] < where[head][0] == end[0]


def test_a_loop_is_closed_by_what_goes_back() -> None:
    nodes = [Node(of, "") for of in ("body", "head", "source")]
    arrows = [Arrow("body", "head", "back"), Arrow("head", "body", "on")]
    drawing = graph(nodes, [*arrows, Arrow("source", "head", "in")], "a loop")
    where = boxes(drawing)
    assert where["source"][0] < where["head"][0] < where["body"][0]
    assert [text for text, _, end in ends(drawing) if end[1] == where["head"][3]] == ["back"]
    assert graph([], [], "nothing") == ""


def test_what_a_name_has_is_text() -> None:
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


def test_a_page_has_all_that_the_dataflow_tells(pair: Pair) -> None:
    page = pair.flow.page()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page), "it needs no other file"
    (drawing,) = (one for one in re.findall(r"<svg.*?</svg>", page, re.DOTALL) if "rect" in one)
    where = boxes(drawing)
    assert set(where) == {"a", "b"}
    assert [text for text, _, _ in ends(drawing)] == ["0 of 1"]
    assert "Queries that send to each other: a, b" in page
    assert [unescape(of) for of in re.findall(r"<h2>(.*?)</h2>", page)] == [
        "In flight, at the last cut",
        "How old each member was",
        "Cuts",
    ]
    assert pair.flow.location in page


def test_a_member_that_is_kept_back_stands_out(pair: Pair) -> None:
    # It has consumed what its sender has not sent, as far as its cuts say.
    pair.b.consume(pair.a, pair.a.epoch + 1)
    pair.b.run()
    status = pair.flow.status()
    assert set(status.reasons) == {"b"}
    drawing = next(of for of in re.findall(r"<svg.*?</svg>", status._repr_html_()) if "rect" in of)
    dashed = [of for of in parsed(drawing).iter("g") if "stroke-dasharray" in str(attributes(of))]
    assert [title(of) for of in dashed] == [f"b, epoch 2. {status.reasons['b']}"]


def attributes(group: ElementTree.Element) -> list[dict[str, str]]:
    return [of.attrib for of in group.iter("rect")]


def title(group: ElementTree.Element) -> str | None:
    found = group.find("title")
    return None if found is None else found.text


def test_a_dataflow_without_a_cut_has_a_page(tmp_path: Path) -> None:
    page = Pair(str(tmp_path)).added().flow.page()
    assert "not started" in page
    assert "<h2>" not in page


def test_each_request_is_answered_with_the_page_as_it_is_then(pair: Pair) -> None:
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


def test_the_command_prints_it_writes_it_and_serves_it(
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
