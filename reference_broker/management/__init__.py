"""What an operator reads: a Jolokia-compatible HTTP endpoint and Prometheus metrics of one node."""
