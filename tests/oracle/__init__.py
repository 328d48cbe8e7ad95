"""The rules a second time, in plain Python, to judge the fast code by."""
