"""Each rule of the protocol has a number and names existing tests that break it."""

import re

from tests.unit.test_tidy import ROOT, named, tracked

PAGE = (ROOT / "docs/PROTOCOL.md").read_text(encoding="utf-8")
RULE = re.compile(r"^- \*\*([A-Z])(\d+)\*\* .*? \[([^\]]+)\](?: \*[^*]+\*)?$", re.MULTILINE)
MODELS = [path.read_text(encoding="utf-8") for path in tracked(".tla")]
MODELLED = {name for text in MODELS for name in re.findall(r'Follows\("(\w+)"\)', text)}
SIMULATION = "jvm/spark/src/test/scala/io/cleancut/coordinator/sim/Defect.scala"


def breakers(text: str) -> list[str]:
    """Returns the names in the brackets of a rule, each with its kind."""
    breakers = []
    for part in text.split("; "):
        kind, colon, names = part.partition(": ")
        breakers += [f"{kind}: {name}" for name in names.split(", ")] if colon else [part]
    return breakers


def test_each_rule_is_a_line_with_the_next_number() -> None:
    rules = [(letter, int(number)) for letter, number, _ in RULE.findall(PAGE)]
    assert len(rules) > 80
    assert len(rules) == len(re.findall(r"^- \*\*", PAGE, re.MULTILINE))
    last: dict[str, int] = {}
    for letter, number in rules:
        assert number == last.get(letter, 0) + 1, f"{letter}{number}"
        last[letter] = number


def test_the_tests_that_a_rule_names_exist() -> None:
    defects = set(re.findall(r"case object (\w+)", (ROOT / SIMULATION).read_text(encoding="utf-8")))
    suites = {path.stem for path in tracked("Suite.scala")}
    files = {named(path) for path in tracked(".py")}
    known = (
        {f"model: {name}" for name in MODELLED}
        | {f"sim: {name}" for name in defects}
        | suites
        | files
    )
    named_there = {
        (rule, breaker) for rule, number, text in RULE.findall(PAGE) for breaker in breakers(text)
    }
    assert [breaker for _, breaker in sorted(named_there) if breaker not in known] == []


def test_each_rule_of_the_model_and_each_planted_defect_breaks_one() -> None:
    there = {breaker for *_, text in RULE.findall(PAGE) for breaker in breakers(text)}
    cases = (ROOT / "tests/model/__main__.py").read_text(encoding="utf-8")
    # The model omits that one.
    modelled = MODELLED - {"StopAtLater"}
    assert {f"model: {name}" for name in modelled} - there == set()
    assert {name for name in MODELLED if f'"{name}"' not in cases} == set()
    defects = re.findall(r"case object (\w+) extends Defect\(", (ROOT / SIMULATION).read_text())
    assert {f"sim: {name}" for name in defects} - there == set()


def test_rules_that_the_model_names_exist() -> None:
    numbers = {letter + number for letter, number, _ in RULE.findall(PAGE)}
    for text in MODELS:
        commented = " ".join(re.findall(r"\(\*(.*?)\*\)", text, re.DOTALL))
        assert set(re.findall(r"\b[A-Z]\d+\b", commented)) - numbers == set()
