"""One file per probe. A probe says what there is to look at and looks at it; thresholds are not its business."""
