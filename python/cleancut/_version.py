"""The release of this package and of the jar that it carries."""

__version__ = "0.1.0"
