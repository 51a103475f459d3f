"""Ways of marking a partition as complete: each module is a value of `partition.mark-done-action`.

    check(ctx)               raises `InvalidOption` if the partition cannot be marked that way, before any is
    mark(ctx, partition_name)
                             marks one partition, such as `dt=2024-03-31`

Source: `PartitionMarkDoneAction`.
"""
