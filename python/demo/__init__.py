"""The flights job: two stateful queries that are killed, restarted and then checked.

`python -m demo` replays the departures from New York in 2013 through a window aggregation and a
query with per-aircraft state in Python, kills the driver at random moments, and compares every
result row with the answer of pandas.
"""
