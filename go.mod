module github.com/windlass-run/windlass

go 1.26
