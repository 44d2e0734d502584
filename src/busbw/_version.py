"""The version of busbw; pyproject.toml reads it from here."""

__version__ = "0.2.0"
