package azure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gorilla/websocket"

	"github.com/windlass-run/windlass/sdk"
)

// WebSocket opens a connection at an address that a service of Azure's has given.
// Only the opening is bounded by the session's time-out.
func (x *Session) WebSocket(ctx context.Context, op, address string) (*websocket.Conn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "wss" {
		return nil, &sdk.Error{Code: sdk.Internal, Op: op, Provider: x.provider, Err: errors.New("the address of the session isn't one of wss")}
	}
	d := websocket.Dialer{Proxy: x.transport.Proxy, NetDialContext: x.transport.DialContext, NetDialTLSContext: x.transport.DialTLSContext,
		HandshakeTimeout: x.timeout, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	var conn *websocket.Conn
	err = x.Call(ctx, op, func(ctx context.Context) error {
		c, res, err := d.DialContext(ctx, address, nil)
		if res != nil && res.Body != nil {
			_ = res.Body.Close() // a refusal's text isn't needed
		}
		switch {
		case err == nil:
			conn = c
		case res != nil && res.StatusCode >= http.StatusBadRequest:
			return &sdk.Error{Code: codeOf(res.StatusCode), Op: op, Provider: x.provider, Err: fmt.Errorf("the session's address answers %s", res.Status)}
		}
		return err
	})
	return conn, err
}
