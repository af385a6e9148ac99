"""``python -m brokerproof`` is the ``brokerproof`` script."""

import sys

from brokerproof.conformance.cli import main

sys.exit(main())
