"""`python -m cleancut` is the command `cleancut`."""

import sys

from cleancut.cli import main

sys.exit(main())
