package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
)

// forward accepts at one "network:address" and carries each connection to another,
// so that a Unix socket leads out of a network namespace.
func forward(listen, dial string) error {
	network, address, _ := strings.Cut(listen, ":")
	toNetwork, toAddress, ok := strings.Cut(dial, ":")
	if !ok {
		return fmt.Errorf("%q: want tcp:HOST:PORT or unix:PATH", dial)
	}
	if network == "unix" {
		if err := os.Remove(address); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	accept(l, toNetwork, toAddress)
	return nil
}

func listenLoopback() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// accept carries connections until the listener is closed.
func accept(l net.Listener, network, address string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go carry(c, network, address)
	}
}

// carry passes on both directions, and the end of each by itself.
func carry(from net.Conn, network, address string) {
	defer from.Close()
	to, err := net.Dial(network, address)
	if err != nil {
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	pass := func(w, r net.Conn) {
		_, err := io.Copy(w, r)
		half, ok := w.(interface{ CloseWrite() error })
		if err != nil || !ok || half.CloseWrite() != nil {
			// Broken: the other direction has nobody left either.
			_ = w.Close()
			_ = r.Close()
		}
	}
	both.Go(func() { pass(to, from) })
	both.Go(func() { pass(from, to) })
	both.Wait()
}
