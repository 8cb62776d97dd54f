// Package layout holds no code, only the tests that keep the tree in shape: what
// may import what, and the house rules that a compiler doesn't know. The layers
// stand in one table, table_test.go. The import rules of .golangci.yml are
// written from it by
//
//	go test ./internal/layout -update
package layout
