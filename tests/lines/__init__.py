"""Features by Spark version: a table of the documentation, generated from results of tests.

`rows.py` lists the tests of each feature, and `<version>.json` their results on a Spark version.
`page.py` renders the table. `record.py` writes the results from the reports of pytest and sbt.
"""
