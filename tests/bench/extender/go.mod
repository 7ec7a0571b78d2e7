module leadsman-bench/extender

go 1.25
