package aws

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/gorilla/websocket"

	pocket "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/testwait"
)

// client is a model of AWS's session-manager-plugin, made from its sources: the
// plugin itself isn't to be had on test machines.
// https://github.com/aws/session-manager-plugin/tree/mainline/src
type client struct {
	t    *testing.T
	conn *websocket.Conn
	seq  int64
	// out is what came, closed the text of the end; ended is false while there was
	// none.
	out    bytes.Buffer
	closed string
	ended  bool
	next   int64
}

// dial opens a session's channel.
func dial(t *testing.T, s *types.Session, token string) *client {
	t.Helper()
	conn, resp, err := websocket.DefaultDialer.DialContext(t.Context(), *s.StreamUrl, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(patient))
	c := &client{t: t, conn: conn}
	if err := conn.WriteJSON(map[string]string{"MessageSchemaVersion": "1.0", "RequestId": "0b8c7a34-1c1d-4e5f-8a9b-0c1d2e3f4a5b", "TokenValue": token,
		"ClientId": "1b8c7a34-1c1d-4e5f-8a9b-0c1d2e3f4a5b", "ClientVersion": "1.2.707.0"}); err != nil {
		t.Fatal(err)
	}
	return c
}

// send writes a message, whose header has 116 bytes and 4 for the payload's length.
func (c *client) send(kind string, seq int64, payload uint32, data []byte) {
	c.t.Helper()
	var b bytes.Buffer
	sum := sha256.Sum256(data)
	for _, v := range []any{uint32(116), []byte(fmt.Sprintf("%-32s", kind)), uint32(1), uint64(time.Now().UnixMilli()), seq, uint64(0), [16]byte{8: 1, 0: 2}, sum, payload, uint32(len(data)), data} {
		if err := binary.Write(&b, binary.BigEndian, v); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.conn.WriteMessage(websocket.BinaryMessage, b.Bytes()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) input(payload uint32, data string) {
	c.t.Helper()
	c.send("input_stream_data", c.seq, payload, []byte(data))
	c.seq++
}

// read takes one message; false is the connection's end.
func (c *client) read() bool {
	c.t.Helper()
	kind, raw, err := c.conn.ReadMessage()
	if err != nil {
		return false
	}
	if kind != websocket.BinaryMessage || len(raw) < 120 || binary.BigEndian.Uint32(raw) != 116 {
		c.t.Fatalf("a message %q", raw)
	}
	name, data := strings.TrimSpace(string(raw[4:36])), raw[120:]
	if sum := sha256.Sum256(data); !bytes.Equal(sum[:], raw[80:112]) || int(binary.BigEndian.Uint32(raw[116:])) != len(data) {
		c.t.Fatalf("digest or length of %q are wrong", raw)
	}
	seq, payload := int64(binary.BigEndian.Uint64(raw[48:])), binary.BigEndian.Uint32(raw[112:])
	switch name {
	case "channel_closed":
		var end struct{ MessageType, SessionID, Output string }
		if err := json.Unmarshal(data, &end); err != nil || end.MessageType != "channel_closed" || end.SessionID == "" {
			c.t.Fatalf("%v: %s", err, data)
		}
		c.closed, c.ended = end.Output, true
		return false
	case "output_stream_data":
		ack, err := json.Marshal(map[string]any{"AcknowledgedMessageType": name, "AcknowledgedMessageId": "x", "AcknowledgedMessageSequenceNumber": seq, "IsSequentialMessage": true})
		if err != nil {
			c.t.Fatal(err)
		}
		c.send("acknowledge", 0, 0, ack)
		if seq != c.next {
			return true // it came before
		}
		c.next++
		switch payload {
		case 1:
			c.out.Write(data)
		case 5:
			c.input(6, `{"ClientVersion":"1.2.707.0","ProcessedClientActions":[{"ActionType":"SessionType","ActionStatus":1,"ActionResult":null,"Error":""}],"Errors":null}`)
		}
	}
	return true
}

// TestExecuteCommand runs commands in a service's task over the channel: on a
// terminal, split into words, with keys and sizes; what can't be run says why, and
// what isn't allowed is refused.
func TestExecuteCommand(t *testing.T) {
	c := newCloud(t, Options{})
	def := definition("exec", "sleep", "600")
	def.TaskRoleArn = sdk.String("arn:aws:iam::123456789012:role/task")
	arn := c.register(t, def)
	c.serve(t, "api", arn, 1, func(in *ecs.CreateServiceInput) { in.EnableExecuteCommand = true })
	c.serve(t, "closed", arn, 1, nil)
	c.steady(t, "api", 1)
	c.steady(t, "closed", 1)
	task := c.tasksOf(t, "api")[0]
	open := func(command string) *types.Session {
		t.Helper()
		out, err := c.ecs.ExecuteCommand(t.Context(), &ecs.ExecuteCommandInput{Task: &task, Command: &command, Interactive: true})
		if err != nil {
			t.Fatal(err)
		}
		return out.Session
	}
	for command, want := range map[string]string{
		`sh -c 'echo "$AWS_REGION"; echo to stderr >&2; test -t 0 && echo terminal'`: Region + "\r\nto stderr\r\nterminal\r\n",
		`printf '[%s]' 'a b' "" c\ d '"'`:                                            `[a b][][c d]["]`,
	} {
		s := open(command)
		p := dial(t, s, *s.TokenValue)
		for p.read() {
		}
		if !p.ended || p.closed != "" || p.out.String() != want {
			t.Errorf("%s: %q, closed %q (told: %t), want %q", command, p.out.String(), p.closed, p.ended, want)
		}
	}
	s := open(`sh -c 'stty -echo; echo up; read line; stty size; echo "got $line"'`)
	p := dial(t, s, *s.TokenValue)
	for !strings.Contains(p.out.String(), "up") && p.read() {
	}
	p.input(3, `{"cols":91,"rows":17}`)
	p.input(1, "hello\r")
	for p.read() {
	}
	if got := p.out.String(); !p.ended || !strings.Contains(got, "17 91\r\n") || !strings.Contains(got, "got hello\r\n") {
		t.Errorf("with keys and a size: %q", got)
	}
	s = open("nosuchprogram")
	p = dial(t, s, *s.TokenValue)
	for p.read() {
	}
	if !strings.Contains(p.closed, "Unable to start command") || !strings.Contains(p.closed, "executable file not found") {
		t.Errorf("a program that isn't there: %q", p.closed)
	}
	s = open("true")
	if p = dial(t, s, "another"); p.read() || p.ended {
		t.Error("a channel is opened with another token")
	}
	// A command that never ends goes with its client.
	s = open("sh -c 'echo up; exec sleep 600'")
	p = dial(t, s, *s.TokenValue)
	for !strings.Contains(p.out.String(), "up") && p.read() {
	}
	_ = p.conn.Close()

	refused := func(code string, in *ecs.ExecuteCommandInput) {
		t.Helper()
		in.Interactive, in.Command = true, sdk.String("true")
		_, err := c.ecs.ExecuteCommand(t.Context(), in)
		if err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("got %v, want %s", err, code)
		}
	}
	other := c.tasksOf(t, "closed")[0]
	refused("execute command was not enabled", &ecs.ExecuteCommandInput{Task: &other})
	refused("was not found in the task", &ecs.ExecuteCommandInput{Task: &task, Container: sdk.String("side")})
	c.ECS().TuneKnobs(func(k *pocket.Knobs) { k.AgentDelay = time.Hour })
	refused("TargetNotConnectedException", &ecs.ExecuteCommandInput{Task: &task})
	if agents := c.describe(t, task).Containers[0].ManagedAgents; len(agents) != 1 || *agents[0].LastStatus != "PENDING" {
		t.Errorf("agents %+v", agents)
	}
	c.ECS().TuneKnobs(func(k *pocket.Knobs) { k.AgentDelay, k.CutSessions = 0, 1 })
	s = open("echo done")
	p = dial(t, s, *s.TokenValue)
	for p.read() {
	}
	if p.ended || p.out.String() != "done\r\n" {
		t.Errorf("a session that was cut gave %q, end told: %t", p.out.String(), p.ended)
	}
	testwait.Until(t, patient, "agent", func() bool { return *c.describe(t, task).Containers[0].ManagedAgents[0].LastStatus == "RUNNING" })
}
