"""The error classes that the packaged JSON file declares; the JVM reads the same file."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

# The documentation of this version, built by `mkdocs.yml`.
SITE = "https://cleancut.io/"
# The page that describes all classes.
PAGE = f"{SITE}reference/errors.html"

_MAX_MESSAGE = 2000
# Limits of one value, from the widest to the narrowest.
_LIMITS = (_MAX_MESSAGE, 1000, 700, 500, 350, 250, 150, 100, 60, 30)
_PLACEHOLDER = re.compile(r"<([A-Za-z]+)>")


@dataclass(frozen=True)
class ErrorClass:
    """One entry of the file. Each text is a template: `<parameter>` stands for a value.

    Attributes:
        error_id: never changes its meaning.
        kind: next step of the operator: RETRY, RESTART, FIX_REQUEST, RESTORE or REPORT.
        sql_state: a SQLSTATE that Spark knows.
        message: what happened.
        data_loss: begins with "No." or "Possibly.".
        cause: explanation, for the documentation only.
        diagnose: command that shows more.
        fix: command or setting that resolves it.
    """

    error_id: str
    kind: str
    sql_state: str
    message: str
    data_loss: str
    cause: str
    diagnose: str
    fix: str

    @property
    def url(self) -> str:
        """Address of the class in the documentation."""
        return f"{PAGE}#{self.error_id.lower()}"

    def fitted(self, params: Mapping[str, str]) -> dict[str, str]:
        """The values, each on one line, and shortened until the message fits a screen."""
        lines = {name: re.sub(r"\s*[\r\n]+\s*", " ", value) for name, value in params.items()}
        shortened = [
            {name: _shortened(value, limit) for name, value in lines.items()} for limit in _LIMITS
        ]
        fitting = (values for values in shortened if len(self.render(values)) <= _MAX_MESSAGE)
        return next(fitting, shortened[-1])

    def render(self, params: Mapping[str, str]) -> str:
        """Five lines. The first one ends with the values that no line names, as `name=value`."""

        def value(placeholder: re.Match[str]) -> str:
            return params.get(placeholder[1], placeholder[0])

        lines = self._lines()
        named = set(_PLACEHOLDER.findall("".join(lines)))
        unnamed = [f" {name}={text}" for name, text in params.items() if name not in named]
        # One pass, so that a value with the form of a parameter stays as it is.
        first, *others = [_PLACEHOLDER.sub(value, line) for line in lines]
        return "\n".join([first + "".join(unnamed), *others])

    def parse(self, text: str) -> tuple[str, dict[str, str]] | None:
        """Reads what `render` has written.

        Args:
            text: begins with a message of this class. Other text may follow it.

        Returns:
            The message and its values: all of it, or its first line if the others differ.
        """
        lines = self._lines()
        return _parsed(lines, text) or _parsed(lines[:1], text)

    def _lines(self) -> list[str]:
        return [
            f"[{self.error_id}] {self.message}",
            f"Data lost: {self.data_loss}",
            f"Diagnose: {self.diagnose}",
            f"Fix: {self.fix}",
            f"SQLSTATE: {self.sql_state}. {self.url}",
        ]


def _parsed(lines: list[str], text: str) -> tuple[str, dict[str, str]] | None:
    seen: set[str] = set()

    def pattern_of(line: str) -> str:
        pattern = ""
        for i, part in enumerate(_PLACEHOLDER.split(line)):
            if i % 2 == 0:
                pattern += re.escape(part)
            else:
                pattern += f"(?P={part})" if part in seen else f"(?P<{part}>.*?)"
                seen.add(part)
        return pattern

    first, *others = [pattern_of(line) for line in lines]
    pattern = "\n".join([rf"{first}(?P<_rest>(?: \w+=.*)?)", *others])
    match = re.match(rf"{pattern}$", text, re.MULTILINE)
    if match is None:
        return None
    unnamed = re.split(r"(?:^| )(\w+)=", match["_rest"])[1:]
    values = {name: match[name] for name in seen}
    return match[0], values | dict(zip(unnamed[::2], unnamed[1::2], strict=True))


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


@cache
def error_classes() -> Mapping[str, ErrorClass]:
    """Every error class by its id."""
    text = files("cleancut").joinpath("error-classes.json").read_text(encoding="utf-8")
    return {
        error_id: ErrorClass(
            error_id,
            entry["kind"],
            entry["sqlState"],
            "\n".join(entry["message"]),
            entry["dataLoss"],
            entry["cause"],
            entry["diagnose"],
            entry["fix"],
        )
        for error_id, entry in json.loads(text).items()
    }
