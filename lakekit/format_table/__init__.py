"""Tables that are folders: what lies in one are its rows (format tables), or what its rows tell of (object tables). No manifest lists them."""
