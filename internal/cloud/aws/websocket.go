package aws

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/gorilla/websocket"
)

// dialWait bounds the opening of a websocket.
const dialWait = 30 * time.Second

// Websocket opens a websocket of a service's, by the way that the session's calls
// take. Of AWS itself it is encrypted; a pocket cloud's leads to this machine.
func (x *Session) Websocket(ctx context.Context, address string) (*websocket.Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("open a websocket: %w", err)
	}
	local := x.Endpoint != "" && u.Scheme == "ws" && loopback("http://"+u.Host)
	if u.Scheme != "wss" && !local {
		return nil, fmt.Errorf("open a websocket: %s://%s is neither encrypted nor the pocket cloud on this machine", u.Scheme, u.Host)
	}
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	d := websocket.Dialer{Proxy: x.transport.Proxy, TLSClientConfig: x.transport.TLSClientConfig.Clone(), HandshakeTimeout: dialWait, NetDialContext: x.transport.DialContext}
	d.TLSClientConfig.NextProtos = nil // a websocket is HTTP/1.1
	conn, resp, err := d.DialContext(ctx, address, nil)
	if resp != nil {
		_ = resp.Body.Close() // it says nothing that the error doesn't
	}
	if err != nil {
		return nil, fmt.Errorf("open a websocket to %s: %w", u.Host, err)
	}
	return conn, nil
}
