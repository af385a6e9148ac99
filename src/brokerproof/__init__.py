"""brokerproof: a property-based conformance and chaos suite for message brokers.

The one name that an installation adds. Its four rooms, ``reference_broker``, ``chaos``, ``conformance`` and
``reports``, are the top-level folders of the repository, linked here.
"""
