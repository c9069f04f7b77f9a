"""Each entry's events in their order, walked once: all that the rules need of events comes out of it.

The events of an entry are brought together by one shuffle; each task sorts its own and makes all its rows
with numpy, at whole columns. Nothing depends on the order or the partitions of the events.

- `blocks`: rows on their way, which Spark carries as they are; `packing`: events cut by entry
- `moves`: what an event does, as one word; `sorted_events`: a task's events, sorted by entry
- `lives`: what became of each entry; `stays`: who had it in hand; `waits`: when it could first be got;
  `breaches`: events that don't follow on the one before; `totals`: sums by queue; `ids`: which come again
- `columns`: the rows of all these kinds; `walk`: the whole of it, with Spark
"""
