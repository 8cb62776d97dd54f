package reach

import (
	"net/http"
	"time"
)

// Times of the health check of a connection: together under a call's own time-out
// (30 s by default), so that a call which meets a dead connection isn't followed by
// others on it.
const (
	silentFor    = 10 * time.Second
	answerWithin = 5 * time.Second
)

// Pings returns what a transport needs to notice that a connection of HTTP/2 is dead:
// one that has been silent for ten seconds is asked, and closed when no answer comes
// within five. Without it a connection that a firewall forgot, or that a laptop slept
// through, takes call after call until the kernel gives it up, after a quarter of an
// hour.
// https://pkg.go.dev/net/http#HTTP2Config
func Pings() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: silentFor, PingTimeout: answerWithin}
}
