"""The commit that a campaign runs on, for its records."""

import subprocess


def short_commit() -> str:
    """The first eight digits of the current commit."""
    described = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True
    )
    return described.stdout.strip()
