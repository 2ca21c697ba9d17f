"""How the command ends."""

OK = 0
DAMAGED = 1
REFUSED = 2
# Those of sysexits.h that fit, and what shells say of an interrupt.
BUG = 70
TRY_AGAIN = 75
INTERRUPTED = 130
