"""Other tools: their logs, their output forms and their command lines, a package for each tool."""
