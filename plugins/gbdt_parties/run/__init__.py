"""Runs between parties: agreed on, charged, answered and ended once, whatever is lost on the way.

A run stops at every question until its answer is there (`engine`).  All that must outlive a process is in the
party's log before it leaves (`log`).  For training across parties; nothing of trees is in here.
"""
