"""Front doors: the command lines, tables and exit codes of other tools, over busbw's measurement."""
