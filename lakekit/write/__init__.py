"""Write path: read input as frames, convert it for the table, route rows to buckets, write them."""
