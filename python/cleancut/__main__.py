"""`python -m cleancut` is the command `cleancut`."""

import sys

from cleancut._cli import main

sys.exit(main())
