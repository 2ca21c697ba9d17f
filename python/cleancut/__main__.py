"""`python -m cleancut` is the command `cleancut`."""

import sys

from cleancut._cli.main import main

sys.exit(main())
