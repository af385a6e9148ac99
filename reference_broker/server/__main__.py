"""``python -m brokerproof.reference_broker.server`` is ``brokerproof serve``."""

import sys

from brokerproof.reference_broker.server.serve import main

if __name__ == "__main__":
    sys.exit(main())
