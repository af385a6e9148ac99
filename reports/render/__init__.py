"""Writers: one module per format, one template per page.

They read ``report.json`` structs and evidence, never a broker.
"""
