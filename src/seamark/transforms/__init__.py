"""Steps: functions from tables to tables, and how far each has come."""
