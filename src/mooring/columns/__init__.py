"""The node table: nodes and pods in columns, which every scheduling decision reads.

Data derived from the table finds the rows to update with a ``RowCursor`` (``table.cursor()`` for nodes and pods,
``table.node_cursor()`` for nodes only). Data that depends on all nodes compares ``table.nodes_version``.
"""
