"""Objects as the tables that `kubectl get` prints."""

from mooring.cluster.tables.render import Columns, columns_for, table_document, table_rows

__all__ = ["Columns", "columns_for", "table_document", "table_rows"]
