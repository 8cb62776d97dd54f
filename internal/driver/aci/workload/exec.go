package workload

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
	"github.com/gorilla/websocket"

	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opExec   = "exec in workload"
	callExec = "Microsoft.ContainerInstance/containerGroups/containers/exec/action"
)

// ExecWorkload implements sdk.Execer. Azure runs one program at a terminal: its
// output is one stream, and its end tells no exit code. With a shell of the
// provider's, or one that the command itself hands a line to, the command may have arguments, and its code is told by that.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-exec#restrictions
func (o *Operator) ExecWorkload(ctx context.Context, r sdk.ExecWorkloadRequest) (sdk.ExecWorkloadResult, error) {
	w, g, err := o.open(ctx, opExec, r.Op.Path)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	v := viewOf(g)
	container, err := o.chosen(v, r)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	program, line, err := o.program(r)
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	if err := r.Op.Expect.Check(opExec, o.status(w, v)); err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	res := sdk.ExecWorkloadResult{Instance: container}
	if r.Op.DryRun {
		res.Calls = []sdk.PlannedCall{{Name: callExec, Object: "container " + container + " of container group " + string(w.path()), Args: map[string]string{"command": program}}}
		return res, nil
	}
	req := arm.ContainerExecRequest{Command: &program}
	if t := r.Terminal; t != nil && t.Columns > 0 && t.Rows > 0 {
		req.TerminalSize = &arm.ContainerExecRequestTerminalSize{Cols: to.Ptr(int32(min(t.Columns, 1<<15))), Rows: to.Ptr(int32(min(t.Rows, 1<<15)))}
	}
	made, err := turn.Call(ctx, o.Provider, o.Session, o.Writes, opExec, func(ctx context.Context) (arm.ContainersClientExecuteCommandResponse, error) {
		return o.containers.ExecuteCommand(ctx, w.group, w.name, container, req, nil)
	})
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	conn, err := o.Session.WebSocket(ctx, opExec, deref(made.WebSocketURI))
	if err != nil {
		return sdk.ExecWorkloadResult{}, err
	}
	s := &session{conn: conn, r: r, line: line, typing: make(chan struct{})}
	res.ExitCode, res.Why = s.run(ctx, deref(made.Password))
	return res, nil
}

// chosen is the container that a command runs in.
func (o *Operator) chosen(v view, r sdk.ExecWorkloadRequest) (string, error) {
	if len(r.Command) == 0 || r.Command[0] == "" {
		return "", o.fail(sdk.InvalidArgument, opExec, errors.New("there is no command"))
	}
	name := r.Instance
	if r.Container != "" {
		if name != "" && name != r.Container {
			return "", o.fail(sdk.InvalidArgument, opExec, fmt.Errorf("the instance %s is a container, and has none called %s", name, r.Container))
		}
		name = r.Container
	}
	there := false
	for _, c := range v.containers {
		if name != "" && name != *c.Name {
			continue
		}
		there = true
		if in(c, stateRunning) && !v.stopped() {
			return *c.Name, nil
		}
	}
	switch {
	case !there:
		return "", o.fail(sdk.NotFound, opExec, fmt.Errorf("the container group has no container %q", name))
	case name == "":
		return "", o.fail(sdk.FailedPrecondition, opExec, errors.New("none of its containers runs"))
	}
	return "", o.fail(sdk.FailedPrecondition, opExec, fmt.Errorf("the container %s doesn't run", name))
}

// program is what Azure is asked to run, and the line that tells a shell the rest;
// nil where the program is the whole command.
func (o *Operator) program(r sdk.ExecWorkloadRequest) (string, *wrapped, error) {
	if r.Stdin != nil && r.Terminal == nil {
		e := o.fail(sdk.Unimplemented, opExec, errors.New("a session of Container Instances is a terminal, which can't carry input as it is nor its end"))
		e.Field, e.Remedy = "stdin", "leave input out, or ask for a terminal"
		return "", nil, e
	}
	shell := cmp.Or(o.ExecShell, sdk.ShellOf(r.Command))
	if shell == "" {
		if word := r.Command[0]; len(r.Command) > 1 || strings.ContainsAny(word, " \t\r\n'\"\\$") {
			e := o.fail(sdk.Unimplemented, opExec, errors.New("a session of Container Instances runs one program without arguments"))
			e.Field, e.Remedy = "command", "give it as one line with --shell, or name a shell that the containers have, as in exec_shell: /bin/sh, in the provider's config: it is told the command, and tells its exit code"
			return "", nil, e
		}
		return r.Command[0], nil, nil
	}
	var nonce [12]byte
	_, _ = rand.Read(nonce[:]) // it never fails
	w, err := wrap(r.Command, hex.EncodeToString(nonce[:]), r.Terminal != nil)
	if err != nil {
		e := o.fail(sdk.InvalidArgument, opExec, err)
		e.Field = "command"
		return "", nil, e
	}
	return shell, &w, nil
}

// session is one connection.
type session struct {
	conn *websocket.Conn
	r    sdk.ExecWorkloadRequest
	line *wrapped
	// typing is closed when the command itself reads keys.
	typing chan struct{}
}

const (
	// hello bounds the sending of a password, or of keys.
	hello = 30 * time.Second
	// ping keeps a connection up on which nothing is written; one that has died is
	// noticed after two without an answer.
	ping = 20 * time.Second
)

// run carries the session to its end.
func (s *session) run(ctx context.Context, password string) (code *int, why string) {
	inner, cancel := context.WithCancel(ctx)
	keys := make(chan []byte)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.send(inner, password, keys)
	}()
	if s.r.Stdin != nil {
		go s.read(inner, keys) // left behind where a read is under way
	}
	u, ended, output := s.receive()
	left := ctx.Err() != nil
	cancel()
	_ = s.conn.Close() // the session is over
	<-sent
	switch {
	case u != nil && u.code != nil:
		return u.code, ""
	case output != nil:
		return nil, "its output couldn't be written: " + output.Error()
	case left:
		return nil, "the session was left before the command's end"
	case u != nil && !u.began && u.words() != "":
		return nil, "the shell didn't run the command; the session says: " + u.words()
	case !websocket.IsCloseError(ended, websocket.CloseNormalClosure):
		return nil, "the connection ended before the command's end was told: " + oneLine(ended.Error())
	case u != nil:
		return nil, "the session ended before the shell told the command's exit code"
	}
	return nil, "Container Instances tells no exit code; with --shell, or exec_shell in the provider's config, a shell tells it"
}

// receive copies what the session writes, until its end or that of the output.
func (s *session) receive() (u *unwrapper, ended, output error) {
	write := func(b []byte) error {
		if len(b) == 0 || s.r.Stdout == nil {
			return nil
		}
		_, err := s.r.Stdout.Write(b)
		return err
	}
	if s.line == nil {
		close(s.typing)
	} else {
		u = &unwrapper{w: *s.line, keep: s.r.Terminal != nil}
	}
	dead := func() { _ = s.conn.SetReadDeadline(time.Now().Add(3 * ping)) } // a connection of ours
	s.conn.SetPongHandler(func(string) error { dead(); return nil })
	dead()
	crlf, lines := s.line == nil && s.r.Terminal == nil, &newlines{}
	for {
		_, data, err := s.conn.ReadMessage()
		if err != nil {
			if u != nil {
				output = write(u.rest())
			} else {
				output = write(lines.rest())
			}
			return u, err, output
		}
		dead()
		if u != nil {
			began := u.began
			data = u.add(data)
			if !began && u.began {
				close(s.typing)
			}
		} else if crlf {
			data = lines.add(data)
		}
		if err := write(data); err != nil {
			return u, nil, err
		}
		if u != nil && u.code != nil {
			return u, nil, nil
		}
	}
}

// send writes the password, the line for the shell, then keys and signals. It closes
// the connection when ctx ends.
func (s *session) send(ctx context.Context, password string, keys <-chan []byte) {
	defer func() { _ = s.conn.Close() }() // the reader is to end, too
	write := func(kind int, b []byte) bool {
		_ = s.conn.SetWriteDeadline(time.Now().Add(hello)) // a connection of ours
		return s.conn.WriteMessage(kind, b) == nil
	}
	if !write(websocket.TextMessage, []byte(password)) {
		return
	}
	if s.line != nil && !write(websocket.BinaryMessage, []byte(s.line.line)) {
		return
	}
	signals, sizes := s.r.Signals, s.r.Resize
	ticker := time.NewTicker(ping)
	defer ticker.Stop()
	for {
		ok := true
		select {
		case <-ctx.Done():
			return
		case b := <-keys:
			ok = write(websocket.BinaryMessage, b)
		case name, more := <-signals:
			if !more {
				signals = nil
			} else if key := keyOf(name); key != 0 {
				ok = write(websocket.BinaryMessage, []byte{key})
			}
		case _, more := <-sizes: // Azure takes a size at the start alone
			if !more {
				sizes = nil
			}
		case <-ticker.C:
			ok = s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(hello)) == nil
		}
		if !ok {
			return
		}
	}
}

// keyOf is the key that makes a terminal send a signal; 0 for none.
func keyOf(signal string) byte {
	switch strings.TrimPrefix(strings.ToUpper(signal), "SIG") {
	case "INT":
		return 0x03
	case "QUIT":
		return 0x1c
	case "TSTP":
		return 0x1a
	}
	return 0
}

// endOfInput is the key that ends a terminal's input.
const endOfInput = 0x04

// read passes keys on once the command reads them, and the end of them as its key.
func (s *session) read(ctx context.Context, keys chan<- []byte) {
	select {
	case <-s.typing:
	case <-ctx.Done():
		return
	}
	b := make([]byte, 4<<10)
	for {
		n, err := s.r.Stdin.Read(b)
		piece := append([]byte{}, b[:n]...)
		if errors.Is(err, io.EOF) {
			piece = append(piece, endOfInput)
		}
		if len(piece) > 0 {
			select {
			case keys <- piece:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
