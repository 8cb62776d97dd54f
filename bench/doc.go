// Package bench measures whole paths of the product against the plain
// alternative in the same run. `make bench` runs it; README.md has the results.
package bench
