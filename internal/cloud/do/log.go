package do

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// maxLine bounds a line of a log in bytes; a longer one comes in parts.
	maxLine = 16 << 20
	// A live log that is silent is asked whether it is still there, and given up
	// when no answer comes.
	pingEvery = 20 * time.Second
	pongWait  = 60 * time.Second
)

// logURL reads the address of a log, which bears a token of its own. It must be
// safe to ask: on this machine for a pocket cloud, with TLS otherwise.
func (x *Session) logURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of the log is none")
	}
	switch u.Scheme {
	case "http", "ws":
		if x.local && local(u) {
			return u, nil
		}
	case "https", "wss":
		if u.Host != "" && (!x.local || local(u)) {
			return u, nil
		}
	}
	return nil, fmt.Errorf("the address of the log, at %s, is not one that can be trusted", u.Host)
}

// LiveLog gives the lines of a live log as they come, from its beginning, until it
// ends. An error comes last: the connection broke, or ctx ended.
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_get_logs
func (x *Session) LiveLog(ctx context.Context, op, address string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := x.listen(ctx, op, address, func(line string) bool { return yield(line, nil) }); err != nil {
			yield("", err)
		}
	}
}

func (x *Session) listen(ctx context.Context, op, address string, line func(string) bool) error {
	u, err := x.logURL(address)
	if err != nil {
		return x.mapError(ctx, ctx, op, err)
	}
	u.Scheme = map[string]string{"http": "ws", "ws": "ws", "https": "wss", "wss": "wss"}[u.Scheme]
	var conn *websocket.Conn
	err = x.Bounded(ctx, op, func(ctx context.Context) (err error) {
		dialer := websocket.Dialer{Proxy: x.transport.Proxy, NetDialContext: x.transport.DialContext, TLSClientConfig: x.transport.TLSClientConfig.Clone()}
		var answer *http.Response
		if conn, answer, err = dialer.DialContext(ctx, u.String(), nil); err != nil && answer != nil {
			_ = answer.Body.Close() // it has a part of the refusal at most
			return fmt.Errorf("the live log answered with %s", answer.Status)
		}
		return err
	})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	over, end := context.WithCancel(ctx)
	defer end()
	wg.Go(func() { // it alone closes, so that a read ends with the caller's context
		defer func() { _ = conn.Close() }() // what it sent was read, or isn't wanted
		for sdk.SystemClock().Sleep(over, pingEvery) == nil {
			_ = conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second)) // a broken connection shows when it is read
		}
	})
	conn.SetReadLimit(2 * maxLine)
	alive := func(string) error { return conn.SetReadDeadline(time.Now().Add(pongWait)) }
	conn.SetPongHandler(alive)
	var rest carry
	for {
		_ = alive("") // without a deadline the read would only wait longer
		_, message, err := conn.ReadMessage()
		if err != nil {
			if ctx.Err() == nil && websocket.IsCloseError(err, websocket.CloseNormalClosure) {
				rest.flush(line)
				return nil
			}
			return x.mapError(ctx, ctx, op, fmt.Errorf("the live log broke off: %w", err))
		}
		text, err := ParseMessage(message)
		if err != nil {
			return x.mapError(ctx, ctx, op, err)
		}
		if !rest.add(text, line) {
			return nil
		}
	}
}

// ParseMessage reads a message of a live log, {"data": "TEXT"}.
func ParseMessage(message []byte) (string, error) {
	var m struct {
		Data *string `json:"data"`
	}
	if json.Unmarshal(message, &m) != nil || m.Data == nil {
		return "", errors.New("a message of the live log can't be read")
	}
	return *m.Data, nil
}

// carry cuts text into lines, and keeps an unfinished one.
type carry struct{ rest strings.Builder }

// add gives the lines that are whole. It is false once the reader has enough.
func (c *carry) add(text string, line func(string) bool) bool {
	for {
		head, tail, ended := strings.Cut(text, "\n")
		c.rest.WriteString(head)
		if !ended && c.rest.Len() < maxLine {
			return true
		}
		whole := c.rest.String()
		c.rest.Reset()
		if !line(whole) {
			return false
		}
		if !ended {
			return true
		}
		text = tail
	}
}

func (c *carry) flush(line func(string) bool) {
	if c.rest.Len() > 0 {
		line(c.rest.String())
	}
}

// ArchivedLog gives the lines of an archived log. An error comes last.
func (x *Session) ArchivedLog(ctx context.Context, op, address string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := x.fetch(ctx, op, address, func(line string) bool { return yield(line, nil) }); err != nil {
			yield("", err)
		}
	}
}

func (x *Session) fetch(ctx context.Context, op, address string, line func(string) bool) error {
	u, err := x.logURL(address)
	if err != nil {
		return x.mapError(ctx, ctx, op, err)
	}
	u.Scheme = map[string]string{"http": "http", "ws": "http", "https": "https", "wss": "https"}[u.Scheme]
	// The time-out bounds the wait for the next bytes, not the whole.
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(x.timeout, func() { cancel(errNoAnswer) })
	defer late.Stop()
	request, err := http.NewRequestWithContext(inner, http.MethodGet, u.String(), nil)
	if err != nil {
		return x.mapError(ctx, inner, op, errors.New("the address of the log is none"))
	}
	// Without the API's token, which is not for whoever keeps the archive.
	plain := &http.Client{Transport: x.transport, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		_, err := x.logURL(r.URL.String())
		return err
	}}
	answer, err := plain.Do(request)
	if err != nil {
		return x.mapError(ctx, inner, op, err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read to its end, or isn't wanted
	if answer.StatusCode != http.StatusOK {
		return x.mapError(ctx, inner, op, fmt.Errorf("the archived log answered with %s", answer.Status))
	}
	var rest carry
	in := bufio.NewReaderSize(answer.Body, 64<<10)
	for {
		late.Reset(x.timeout)
		part, err := in.ReadSlice('\n')
		late.Stop() // the time that is taken over a line isn't the server's
		if len(part) > 0 && !rest.add(string(part), line) {
			return nil
		}
		switch {
		case errors.Is(err, io.EOF):
			rest.flush(line)
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return x.mapError(ctx, inner, op, err)
		}
	}
}
