"""Each entry's events in their order, walked once: all that the rules need of events comes out of it.

The events of an entry are brought together by one shuffle; each task sorts its own and makes all its rows
with numpy, at whole columns. Nothing depends on the order or the partitions of the events.

- `moves`: what an event does, as one word; `sorted_events`: a task's events, sorted by entry
- `lives`: what became of each entry; `kept_steps`: the events that rules about holders and order go on with;
  `breaches`: those that don't follow on the one before; `totals`: sums by queue
- `columns`: what comes out, a row of one of these kinds each; `walk`: the whole of it, with Spark
"""
