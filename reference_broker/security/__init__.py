"""Who may come in and what they may do.

``passwords`` hashes, ``authenticator`` tells who somebody is, ``authority`` what they may do to which destination. No
protocol, socket or thread is known here: the sessions bring names and passwords, the edge waits for the answer beside
its loop, the node asks before an event reaches the core.
"""
