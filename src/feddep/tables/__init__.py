"""From a silo's own tables (CSV, Parquet, data frames) to its graph."""
