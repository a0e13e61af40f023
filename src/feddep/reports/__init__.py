"""From stored records to tables and pages. A document is a pure function of records."""
