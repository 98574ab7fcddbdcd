"""The forms in which people keep steps, each opened as a `DataTable`: its columns, read in pieces.

`opening` finds out which form something has. No form is imported before it is needed, and none runs anything
that a file contains.
"""
