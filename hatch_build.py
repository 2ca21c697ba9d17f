"""Build hook: the wheel carries the jars that `make jar` builds."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SPARK_LINES = ("4.0", "4.1", "4.2", "4.3")
_JARS = ("cleancut-common", *(f"cleancut-spark-{line}" for line in _SPARK_LINES))


class JarHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is untyped here
    """Adds the jars of this very version to the wheel, although git ignores them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Names the jars to the builder.

        Args:
            version: "standard" or "editable"; an editable install works from the source tree,
                where the jars may be built later.
            build_data: what the builder will pack.

        Raises:
            FileNotFoundError: a jar has not been built.
        """
        if version == "editable":
            return
        release = self.metadata.version
        for name in _JARS:
            jar = Path("python/cleancut/jars") / f"{name}_2.13-{release}.jar"
            if not (Path(self.root) / jar).is_file():
                raise FileNotFoundError(
                    f"{jar} does not exist, and a wheel without it is of no use. Run 'make "
                    "wheel', which builds the jars first, in a clone of the repository."
                )
            build_data["artifacts"].append(f"/{jar}")
