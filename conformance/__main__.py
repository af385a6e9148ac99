"""``python -m conformance`` is the ``brokerproof`` script."""

import sys

from conformance.cli import main

sys.exit(main())
