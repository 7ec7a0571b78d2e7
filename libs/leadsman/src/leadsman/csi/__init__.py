"""Generated code of the CSI specification."""
