"""Spark jobs on queues, killed at named points: the broker, the driver, or an executor, by SIGKILL.

- `points`: where, and who; the product knows nothing of it: `source` has its readers and writers as
  subclasses that are imported wherever Spark unpickles them, with patches around the requests to the broker
- `job`: one job, a program of its own; `stage`: a broker, jobs, and what must be true of both afterwards
- `python -m tests.sparkkills` plays the whole matrix
"""
