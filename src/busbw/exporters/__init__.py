"""Records as other tools write their results: text and bytes from values, without effects.

One module a format with ``write(record, tables)``, one row each in ``formats.FORMATS``.
"""
