"""Data sets, reports, and measurements that concern every trainer."""
