"""What holds on each line of Spark: a table of the documentation, made from tests that have run.

`rows.py` says which tests stand for what, `<line>.json` what each of them came to when it was last
run on that line, and `page.py` makes the table of both. `record.py` writes the first into the
second, from the reports of pytest and sbt.
"""
