"""What can be typed: flags, help and examples of every command, a file for each kind. What a command does is
in the module of ``cli`` with its name, which is imported when it runs.
"""

from busbw.cli.commands import answers, measure, records, site

__all__ = ["answers", "measure", "records", "site"]
