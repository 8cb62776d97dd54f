// Package run runs the containers of a pocket cloud's tasks: as processes of
// this machine, in a Docker engine, or from a script without any process at
// all, which is for benchmarks and fault rounds only.
package run
