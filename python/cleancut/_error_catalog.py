"""The error classes, as the packaged JSON file declares them; the JVM side reads the same file."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_MAX_MESSAGE = 2000
# Of one fact, from the widest down.
_LIMITS = (_MAX_MESSAGE, 1000, 700, 500, 350, 250, 150, 100, 60, 30)
_PLACEHOLDER = re.compile(r"\{([A-Za-z]+)\}")


@dataclass(frozen=True)
class ErrorClass:
    """One entry of the file.

    Attributes:
        error_id: never changes its meaning.
        kind: next step of the operator: RETRY, RESTART, FIX_REQUEST, RESTORE or REPORT.
        message: the problem and its cause, with `{parameter}` where a fact goes.
        remedy: what to do about it, with parameters likewise.
    """

    error_id: str
    kind: str
    message: str
    remedy: str

    def fitted(self, params: Mapping[str, str]) -> dict[str, str]:
        """The facts, cut so far that the whole message fits a screen."""
        shortened = [
            {name: _shortened(value, limit) for name, value in params.items()} for limit in _LIMITS
        ]
        fitting = (facts for facts in shortened if len(self.render(facts)) <= _MAX_MESSAGE)
        return next(fitting, shortened[-1])

    def render(self, params: Mapping[str, str]) -> str:
        """`[ID] problem. remedy. name=value …`; facts that the text has named are not repeated."""

        def fact(found: re.Match[str]) -> str:
            return params.get(found[1], found[0])

        text = f"{self.message} {self.remedy}"
        named = set(_PLACEHOLDER.findall(text))
        facts = [f"{name}={value}" for name, value in params.items() if name not in named]
        # One pass, so that a brace within a value is never taken for a parameter.
        return " ".join([f"[{self.error_id}]", _PLACEHOLDER.sub(fact, text), *facts])

    def facts(self, text: str) -> dict[str, str]:
        """What `render` has filled in, as far as a text tells; none where it is another text."""
        seen: set[str] = set()
        pattern = ""
        for i, part in enumerate(_PLACEHOLDER.split(f"{self.message} {self.remedy}")):
            if i % 2 == 0:
                pattern += re.escape(part)
            else:
                pattern += f"(?P={part})" if part in seen else f"(?P<{part}>.*?)"
                seen.add(part)
        found = re.match(rf"\[{self.error_id}\] {pattern}(?P<_rest>(?: \w+=.*)?)$", text)
        if found is None:
            return {}
        rest = re.split(r"(?:^| )(\w+)=", found["_rest"])[1:]
        return {name: found[name] for name in seen} | dict(zip(rest[::2], rest[1::2], strict=True))


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


@cache
def error_classes() -> Mapping[str, ErrorClass]:
    """Every error class by its id."""
    text = files("cleancut").joinpath("error-classes.json").read_text(encoding="utf-8")
    return {
        error_id: ErrorClass(error_id, entry["kind"], entry["message"], entry["remedy"])
        for error_id, entry in json.loads(text).items()
    }
