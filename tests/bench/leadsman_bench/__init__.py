"""The same load on Leadsman's services and on a scheduler extender written in Go, in one run on one machine."""
