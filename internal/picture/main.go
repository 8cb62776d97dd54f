// Command picture turns what a program wrote to a terminal into an SVG for the
// documents. It reads standard input and writes standard output; scripts/picture feeds
// it. Readers with a dark page get a dark picture.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run() error {
	rows, err := parse(bufio.NewReader(os.Stdin))
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(draw(rows))
	return err
}
