"""Foreign logs to records: the text of other tools becomes what ``busbw run`` would have written.

The way of a log: ``lines`` (bytes to lines without what launchers put before them), ``scan`` (to tables; JSON
and CSV get there by ``entries``), the tool's own ``read.py`` (to columns with a meaning: ``table``), ``check``
(damaged rows are left out),
``decide`` (operation and ranks, by ``solve`` where the log does not say them), ``whole`` (what is missing),
``cases`` and ``assemble`` (the record). No module here knows a tool: ``foreign/read_any.py`` has them all.
"""
