"""The forms in which tables are saved: text with separators, records of JSON, workbooks."""
