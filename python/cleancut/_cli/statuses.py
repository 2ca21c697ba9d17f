"""Exit statuses of the command."""

OK = 0
DAMAGED = 1
REFUSED = 2
QUERY_FAILED = 3
# The matching ones of sysexits.h, and the shells' status of an interrupt.
BUG = 70
TRY_AGAIN = 75
INTERRUPTED = 130
