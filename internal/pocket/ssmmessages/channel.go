package ssmmessages

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Command is what a session runs: a terminal with a command on it.
type Command interface {
	// Read gives what the command wrote, and io.EOF once it has ended; Write gives
	// it keys.
	io.ReadWriteCloser
	// Resize changes the terminal's size.
	Resize(columns, rows uint16) error
}

// Session is one session, which has one channel.
type Session struct {
	// ID and Token are those that the client was given.
	ID, Token string
	// Start starts the command, once the client has shaken hands. Its error's text
	// is what the client is told.
	Start func() (Command, error)
	// Cut cuts the channel after the command's output, before its end is told.
	Cut bool
	// Done is closed when the pocket cloud ends.
	Done <-chan struct{}
}

const (
	// chunk is how much output a message takes; that of the agent:
	// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/session/config/config.go
	chunk = 1024
	// resend is when a message that isn't acknowledged is sent again.
	resend = 200 * time.Millisecond
	// window is how many messages may go unacknowledged.
	window = 64
	// shake bounds the time in which a client shakes hands.
	shake = 15 * time.Second
	// maxMessage bounds what a client sends.
	maxMessage = 128 << 10
)

// opening is the first message, as text.
type opening struct {
	MessageSchemaVersion, RequestID, TokenValue, ClientID, ClientVersion string
}

// Serve carries a session over a request for a websocket, until its end.
func Serve(w http.ResponseWriter, r *http.Request, s Session) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	conn.SetReadLimit(maxMessage)
	c := &channel{conn: conn, s: s, acked: make(chan struct{}, 1), over: make(chan struct{}), waiting: map[int64][]byte{}, early: map[int64]message{}, shaken: make(chan struct{})}
	defer func() { _ = conn.Close() }() // the client has had its last message, or has gone
	if err := c.open(); err != nil {
		c.refuse(err)
		return
	}
	c.carry()
}

// channel is a data channel.
type channel struct {
	conn *websocket.Conn
	s    Session

	// write is held by whoever writes to the connection.
	write sync.Mutex

	mu sync.Mutex
	// waiting are messages of ours that aren't acknowledged, next the number of the
	// next one.
	waiting map[int64][]byte
	next    int64
	acked   chan struct{}
	// over is closed when the client has gone.
	over chan struct{}

	// expected is the number of the client's next message, early are those that
	// came before their turn. The reader alone uses them.
	expected int64
	early    map[int64]message
	shaken   chan struct{}
	command  Command
}

// open reads the first message, by which the client shows its token.
func (c *channel) open() error {
	_ = c.conn.SetReadDeadline(time.Now().Add(shake)) // a broken connection shows at the read
	kind, raw, err := c.conn.ReadMessage()
	if err != nil {
		return err
	}
	var o opening
	if err := json.Unmarshal(raw, &o); err != nil || kind != websocket.TextMessage {
		return errors.New("the first message isn't the opening as text")
	}
	if o.MessageSchemaVersion != "1.0" || o.RequestID == "" || o.ClientID == "" || o.TokenValue != c.s.Token {
		return errors.New("the opening lacks its version, its IDs or the session's token")
	}
	return nil
}

// refuse ends a channel that wasn't opened as it has to be.
func (c *channel) refuse(err error) {
	c.write.Lock()
	defer c.write.Unlock()
	_ = c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, err.Error()), time.Now().Add(time.Second))
}

// carry shakes hands, runs the command, and tells its end.
func (c *channel) carry() {
	var all sync.WaitGroup
	defer all.Wait()
	defer func() { _ = c.conn.Close() }() // ends the reader
	all.Go(c.repeat)
	hello, err := json.Marshal(map[string]any{"AgentVersion": "3.3.2299.0", "RequestedClientActions": []any{map[string]any{
		"ActionType": "SessionType", "ActionParameters": map[string]any{"SessionType": "InteractiveCommands", "Properties": map[string]string{}}}}})
	if err != nil {
		panic("ssmmessages: " + err.Error()) // strings
	}
	ready := make(chan struct{})
	all.Go(func() { c.read(ready) })
	c.stream(payloadHandshakeRequest, hello)
	select {
	case <-c.shaken:
	case <-c.over:
		return
	case <-c.s.Done:
		return
	case <-time.After(shake):
		return
	}
	c.stream(payloadHandshakeComplete, []byte(`{"HandshakeTimeToComplete":1000000,"CustomerMessage":""}`))
	command, err := c.s.Start()
	if err != nil {
		c.drained()
		c.closed(err.Error())
		return
	}
	c.command = command
	close(ready)
	defer func() { _ = command.Close() }() // it has ended, or is left
	ended := make(chan struct{})
	all.Go(func() {
		select {
		case <-c.over:
		case <-c.s.Done:
		case <-ended:
		}
		_ = command.Close() // ends the read below
	})
	buf := make([]byte, chunk)
	for {
		n, err := command.Read(buf)
		if n > 0 {
			c.stream(payloadOutput, append([]byte{}, buf[:n]...))
		}
		if err != nil {
			break
		}
	}
	close(ended)
	c.drained()
	if !c.s.Cut {
		c.closed("")
	}
}

// stream sends a message of the agent's stream, in its turn, when there is room.
func (c *channel) stream(payload uint32, data []byte) {
	for {
		c.mu.Lock()
		if len(c.waiting) < window {
			break
		}
		c.mu.Unlock()
		select {
		case <-c.acked:
		case <-c.over:
			return
		case <-c.s.Done:
			return
		}
	}
	m := message{kind: typeOutput, sequence: c.next, id: newID(), payload: payload, data: data}
	if c.next == 0 {
		m.flags = 1 // the first of the stream
	}
	raw := m.encode(time.Now())
	c.waiting[c.next] = raw
	c.next++
	c.mu.Unlock()
	c.send(raw)
}

func (c *channel) send(raw []byte) {
	c.write.Lock()
	defer c.write.Unlock()
	_ = c.conn.WriteMessage(websocket.BinaryMessage, raw) // a broken connection shows at the read
}

// repeat sends again what isn't acknowledged.
func (c *channel) repeat() {
	tick := time.NewTicker(resend)
	defer tick.Stop()
	for {
		select {
		case <-c.over:
			return
		case <-tick.C:
		}
		c.mu.Lock()
		first := int64(-1)
		for n := range c.waiting {
			if first < 0 || n < first {
				first = n
			}
		}
		raw := c.waiting[first]
		c.mu.Unlock()
		if raw != nil {
			c.send(raw)
		}
	}
}

// drained waits until everything is acknowledged.
func (c *channel) drained() {
	for {
		c.mu.Lock()
		n := len(c.waiting)
		c.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-c.acked:
		case <-c.over:
			return
		case <-c.s.Done:
			return
		}
	}
}

// closed tells the session's end.
func (c *channel) closed(output string) {
	data, err := json.Marshal(map[string]any{"MessageType": typeClosed, "MessageId": text(newID()), "SessionId": c.s.ID, "DestinationId": c.s.ID,
		"SchemaVersion": 1, "CreatedDate": time.Now().UTC().Format(time.RFC3339), "Output": output})
	if err != nil {
		panic("ssmmessages: " + err.Error()) // strings
	}
	c.send(message{kind: typeClosed, id: newID(), data: data}.encode(time.Now()))
	// The client hangs up.
	select {
	case <-c.over:
	case <-c.s.Done:
	case <-time.After(shake):
	}
}

// read takes the client's messages until it has gone. ready is closed once there
// is a command.
func (c *channel) read(ready <-chan struct{}) {
	defer close(c.over)
	_ = c.conn.SetReadDeadline(time.Time{})
	for {
		kind, raw, err := c.conn.ReadMessage()
		if err != nil {
			return
		}
		if kind != websocket.BinaryMessage {
			continue
		}
		m, err := decode(raw)
		if err != nil {
			c.refuse(err)
			return
		}
		switch m.kind {
		case typeAck:
			c.acknowledged(m)
		case typeInput:
			if !c.input(m, ready) {
				return
			}
		}
	}
}

func (c *channel) acknowledged(m message) {
	var a struct{ AcknowledgedMessageSequenceNumber int64 }
	if json.Unmarshal(m.data, &a) != nil {
		return
	}
	c.mu.Lock()
	delete(c.waiting, a.AcknowledgedMessageSequenceNumber)
	c.mu.Unlock()
	select {
	case c.acked <- struct{}{}:
	default: // whoever waits looks anyway
	}
}

// input takes a message of the client's stream in its turn. What comes before
// there is a command isn't acknowledged: the client sends it again.
func (c *channel) input(m message, ready <-chan struct{}) bool {
	if m.payload != payloadHandshakeResponse {
		select {
		case <-ready:
		default:
			return true
		}
	}
	ack, err := json.Marshal(map[string]any{"AcknowledgedMessageType": m.kind, "AcknowledgedMessageId": text(m.id),
		"AcknowledgedMessageSequenceNumber": m.sequence, "IsSequentialMessage": true})
	if err != nil {
		panic("ssmmessages: " + err.Error()) // strings and numbers
	}
	c.send(message{kind: typeAck, id: newID(), flags: 3, data: ack}.encode(time.Now()))
	if m.sequence < c.expected {
		return true // it came before
	}
	c.early[m.sequence] = m
	for {
		m, ok := c.early[c.expected]
		if !ok {
			return true
		}
		delete(c.early, c.expected)
		c.expected++
		if err := c.take(m); err != nil {
			return false
		}
	}
}

// take does what a message asks for.
func (c *channel) take(m message) error {
	switch m.payload {
	case payloadHandshakeResponse:
		var a struct {
			ProcessedClientActions []struct {
				ActionType   string
				ActionStatus int
			}
		}
		if err := json.Unmarshal(m.data, &a); err != nil || len(a.ProcessedClientActions) != 1 || a.ProcessedClientActions[0].ActionStatus != 1 {
			return fmt.Errorf("the client doesn't shake hands: %s", m.data)
		}
		close(c.shaken)
	case payloadOutput:
		_, _ = c.command.Write(m.data) // a command that has ended reads nothing
	case payloadSize:
		var size struct{ Cols, Rows uint16 }
		if err := json.Unmarshal(m.data, &size); err != nil {
			return fmt.Errorf("no size: %w", err)
		}
		_ = c.command.Resize(size.Cols, size.Rows) // likewise
	case payloadFlag:
		if len(m.data) == 4 && binary.BigEndian.Uint32(m.data) == flagTerminate {
			return errors.New("the client ends the session")
		}
	}
	return nil
}
