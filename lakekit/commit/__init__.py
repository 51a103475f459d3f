"""What writers did, made visible: conflict checks, manifests, snapshots."""
