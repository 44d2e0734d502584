"""Records as other tools write their results: text and bytes from values, without effects.

A format is a function of a record and its tables, and one entry of ``formats.WRITERS``.
"""
