package datachannel

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Size is a terminal's, in characters.
type Size struct{ Columns, Rows int }

// Streams are what a session is joined to.
type Streams struct {
	// Keys are sent as they come, until the channel is closed; nil sends none.
	Keys <-chan []byte
	// Sizes are the terminal's, the first one at once; nil sends none.
	Sizes <-chan Size
	// Output takes what the command writes. Its error ends the session.
	Output io.Writer
}

// End is how a session ended.
type End struct {
	// Told: the service said that the session is over. Without it the connection
	// broke, and nobody knows.
	Told bool
	// Text is what it said besides, such as why the command couldn't be run.
	Text string
}

const (
	// again is when a message that wasn't acknowledged is sent again. The agent
	// leaves messages unacknowledged until the command's terminal is there.
	again = 500 * time.Millisecond
	// ping and silence keep a silent connection, and find one that is dead.
	ping    = 30 * time.Second
	silence = 90 * time.Second
	// maxMessage bounds a message of the service's, in bytes.
	maxMessage = 1 << 20
	// earlyMost bounds how many messages may come before their turn; that of AWS's
	// client.
	earlyMost = 10_000
	// goodbye bounds what is sent to a session that is left.
	goodbye = time.Second
	// clientVersion is what AWS's client calls itself that knows all of this.
	clientVersion = "1.2.707.0"
)

// Run opens the channel of a session over a connection, by its token, and carries
// the session until its end. An error is the context's, that of Output, or a break
// of the protocol; the session is then ended. It closes the connection.
func Run(ctx context.Context, conn *websocket.Conn, token string, s Streams) (End, error) {
	c := &channel{conn: conn, s: s, acks: make(chan int64, 16), early: map[int64]message{}, started: make(chan struct{}), over: make(chan struct{})}
	opening, err := json.Marshal(map[string]string{"MessageSchemaVersion": "1.0", "RequestId": text(newID()), "TokenValue": token,
		"ClientId": text(newID()), "ClientVersion": clientVersion})
	if err != nil {
		return End{}, err
	}
	conn.SetReadLimit(maxMessage)
	if err := c.write(websocket.TextMessage, opening); err != nil {
		_ = conn.Close() // it is broken
		return End{}, fmt.Errorf("open the data channel: %w", err)
	}
	var all sync.WaitGroup
	all.Go(c.pings)
	all.Go(c.send)
	stop := context.AfterFunc(ctx, c.leave)
	end, err := c.read()
	stop()
	close(c.over)
	_ = conn.Close() // it has ended
	all.Wait()
	if ctx.Err() != nil {
		return End{}, context.Cause(ctx)
	}
	return end, err
}

// channel is one data channel.
type channel struct {
	conn *websocket.Conn
	s    Streams

	// mu is held by whoever writes.
	mu sync.Mutex
	// acks brings the numbers of ours that were acknowledged.
	acks chan int64
	// started is closed when the session takes input, over when the channel is at
	// its end.
	started, over chan struct{}

	// What follows is the reader's.
	next   int64
	early  map[int64]message
	shaken bool
}

func (c *channel) write(kind int, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return err
	}
	return c.conn.WriteMessage(kind, data)
}

// leave ends a session that nobody wants any more.
func (c *channel) leave() {
	var flag [4]byte
	binary.BigEndian.PutUint32(flag[:], terminate)
	// It is out of turn, since what comes before may never be acknowledged; the
	// service ends a session whose client has gone.
	raw := message{kind: inputStream, id: newID(), holds: holdsFlag, data: flag[:]}.marshal(time.Now())
	c.mu.Lock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(goodbye))
	_ = c.conn.WriteMessage(websocket.BinaryMessage, raw)
	c.mu.Unlock()
	_ = c.conn.Close() // ends the reader
}

// pings keeps the connection.
func (c *channel) pings() {
	tick := time.NewTicker(ping)
	defer tick.Stop()
	for {
		select {
		case <-c.over:
			return
		case <-tick.C:
			_ = c.conn.WriteControl(websocket.PingMessage, []byte("keepalive"), time.Now().Add(goodbye)) // what is broken shows at the read
		}
	}
}

// read takes messages until the end.
func (c *channel) read() (End, error) {
	alive := func() { _ = c.conn.SetReadDeadline(time.Now().Add(silence)) } // what is broken shows at the read
	alive()
	c.conn.SetPongHandler(func(string) error { alive(); return nil })
	for {
		kind, raw, err := c.conn.ReadMessage()
		if err != nil {
			var refused *websocket.CloseError
			if errors.As(err, &refused) && refused.Text != "" {
				return End{Text: refused.Text}, nil
			}
			return End{}, nil // cut: nothing is known
		}
		alive()
		if kind != websocket.BinaryMessage {
			continue
		}
		m, err := unmarshal(raw)
		if err != nil {
			return End{}, err
		}
		switch m.kind {
		case acknowledge:
			c.acknowledged(m)
		case closed:
			return ended(m)
		case outputStream:
			if err := c.output(m); err != nil {
				return End{}, err
			}
		case pause, resume: // a message that isn't acknowledged is sent again anyway
		}
	}
}

// ended reads the message that ends a session.
func ended(m message) (End, error) {
	var body struct{ Output string }
	if err := json.Unmarshal(m.data, &body); err != nil {
		return End{}, fmt.Errorf("read the session's end: %w", err)
	}
	return End{Told: true, Text: body.Output}, nil
}

func (c *channel) acknowledged(m message) {
	var a struct {
		Number int64 `json:"AcknowledgedMessageSequenceNumber"`
	}
	if json.Unmarshal(m.data, &a) != nil {
		return // it is as if it hadn't come
	}
	select {
	case c.acks <- a.Number:
	case <-c.over:
	default: // the sender has enough to look at, and sends again
	}
}

// output acknowledges a message, and gives on what is in turn.
func (c *channel) output(m message) error {
	if m.sequence >= c.next && len(c.early) < earlyMost {
		m.data = append([]byte{}, m.data...)
		c.early[m.sequence] = m
	} else if m.sequence >= c.next {
		return nil // it comes again
	}
	ack, err := json.Marshal(map[string]any{"AcknowledgedMessageType": m.kind, "AcknowledgedMessageId": text(m.id),
		"AcknowledgedMessageSequenceNumber": m.sequence, "IsSequentialMessage": true})
	if err != nil {
		return err
	}
	_ = c.write(websocket.BinaryMessage, message{kind: acknowledge, id: newID(), data: ack}.marshal(time.Now())) // what is broken shows at the read
	for {
		m, ok := c.early[c.next]
		if !ok {
			return nil
		}
		delete(c.early, c.next)
		c.next++
		if err := c.take(m); err != nil {
			return err
		}
	}
}

// take does what a message of the agent's is for.
func (c *channel) take(m message) error {
	switch m.holds {
	case holdsHandshakeRequest:
		return c.shake(m)
	case holdsHandshakeComplete:
		c.start()
	case holdsOutput, holdsStderr:
		c.start() // an agent that doesn't shake hands begins at once
		if _, err := c.s.Output.Write(m.data); err != nil {
			return err
		}
	}
	return nil
}

func (c *channel) start() {
	select {
	case <-c.started:
	default:
		close(c.started)
	}
}

// action is a thing that the agent asks of its client.
type action struct {
	ActionType       string
	ActionParameters json.RawMessage
}

// done is the answer to it. The statuses are 1 for success and 3 for what isn't
// supported.
type done struct {
	ActionType   string
	ActionStatus int
	ActionResult any
	Error        string
}

// shake answers the agent's handshake: the type of session is agreed to, and
// encryption by a key of KMS isn't supported.
func (c *channel) shake(m message) error {
	var req struct{ RequestedClientActions []action }
	if err := json.Unmarshal(m.data, &req); err != nil {
		return fmt.Errorf("read the agent's handshake: %w", err)
	}
	resp := struct {
		ClientVersion          string
		ProcessedClientActions []done
		Errors                 []string
	}{ClientVersion: clientVersion, ProcessedClientActions: []done{}, Errors: []string{}}
	var refused error
	for _, a := range req.RequestedClientActions {
		d := done{ActionType: a.ActionType, ActionStatus: 1}
		if a.ActionType != "SessionType" {
			d.ActionStatus, d.Error = 3, "Unsupported action "+a.ActionType
			resp.Errors = append(resp.Errors, d.Error)
			refused = fmt.Errorf("the session wants %s, which isn't supported: turn off encryption by a KMS key in the cluster's executeCommandConfiguration", a.ActionType)
		}
		resp.ProcessedClientActions = append(resp.ProcessedClientActions, d)
	}
	data, err := json.Marshal(resp)
	if err != nil {
		return err
	}
	// It is number 0 of our stream; the sender goes on from 1.
	if err := c.write(websocket.BinaryMessage, message{kind: inputStream, id: newID(), holds: holdsHandshakeResponse, data: data}.marshal(time.Now())); err != nil {
		return nil //nolint:nilerr // what is broken shows at the read
	}
	c.shaken = true
	return refused
}

// send sends keys and sizes one after another, each until it is acknowledged.
func (c *channel) send() {
	select {
	case <-c.started:
	case <-c.over:
		return
	}
	next := int64(0)
	if c.shaken { // written before started was closed
		next = 1
	}
	keys, sizes := c.s.Keys, c.s.Sizes
	for {
		var m message
		select {
		case <-c.over:
			return
		case k, ok := <-keys:
			if !ok {
				keys = nil
				continue
			}
			m = message{holds: holdsOutput, data: k}
		case z, ok := <-sizes:
			if !ok {
				sizes = nil
				continue
			}
			data, err := json.Marshal(map[string]int{"cols": z.Columns, "rows": z.Rows})
			if err != nil {
				return
			}
			m = message{holds: holdsSize, data: data}
		}
		m.kind, m.sequence, m.id = inputStream, next, newID()
		if !c.deliver(m) {
			return
		}
		next++
	}
}

// deliver sends a message until it is acknowledged.
func (c *channel) deliver(m message) bool {
	raw := m.marshal(time.Now())
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		_ = c.write(websocket.BinaryMessage, raw) // what is broken shows at the read
	wait:
		for {
			select {
			case n := <-c.acks:
				if n == m.sequence {
					return true
				}
			case <-tick.C:
				break wait
			case <-c.over:
				return false
			}
		}
	}
}
