"""What sysfs tells about a block device: the disks below it, the ways that lead to them, and their states."""
