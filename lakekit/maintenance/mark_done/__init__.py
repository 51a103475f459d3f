"""How it is said that a partition is complete: each module is a value of `partition.mark-done-action`.

    check(handle)               raises `InvalidOption` where it cannot be said that way, before anything is
    mark(handle, directory)     says it of one partition, such as `dt=2024-03-31`

Source: `PartitionMarkDoneAction`.
"""
