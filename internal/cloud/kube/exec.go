package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	transport "k8s.io/client-go/transport/websocket"

	"github.com/windlass-run/windlass/sdk"
)

// The channels of an exec's connection: the first byte of each message. Version 5
// of the protocol has closeChannel besides, whose next byte is the channel that ends.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go
const (
	stdinChannel  = 0
	stdoutChannel = 1
	stderrChannel = 2
	errorChannel  = 3
	resizeChannel = 4
	closeChannel  = 255

	protocolV5 = "v5.channel.k8s.io"
	protocolV4 = "v4.channel.k8s.io"
)

// A connection that is idle is asked whether it is there: what lies between would
// cut it, and a server that has gone would never be missed.
const (
	pingEvery = 10 * time.Second
	pingLost  = 3 * pingEvery
)

// ExecRequest is a command in a container.
type ExecRequest struct {
	Namespace, Pod, Container string
	Command                   []string
	// Stdin is read until its end; nil is none.
	Stdin io.Reader
	// Stdout and Stderr take the output; nil discards.
	Stdout, Stderr io.Writer
	// Terminal, when not nil, gives the command one; Stderr is unused then.
	Terminal *sdk.TerminalSize
	Resize   <-chan sdk.TerminalSize
}

// ExecEnd is how a command ended, as the server told it.
type ExecEnd struct {
	// Code is the command's own; nil is not told, and Why says why not.
	Code *int
	Why  string
}

// Exec runs a command. An error says that it wasn't started. Once it may have been,
// what goes wrong is an end without a code: the command may go on.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
func (x *Session) Exec(ctx context.Context, op string, r ExecRequest) (ExecEnd, error) {
	if err := ctx.Err(); err != nil {
		return ExecEnd{}, x.lost(ctx, ctx, op, err)
	}
	conn, err := x.dial(ctx, op, r)
	switch {
	case err != nil && sdk.IsClear(err):
		return ExecEnd{}, err
	case err != nil:
		return ExecEnd{Why: "the connection ended before the command's start was told: " + err.Error()}, nil
	}
	s := &execSession{conn: conn, r: r, done: make(chan struct{})}
	defer s.close()
	return s.run(ctx), nil
}

// dial opens the connection. Only version 5 can end the command's input.
func (x *Session) dial(ctx context.Context, op string, r ExecRequest) (*websocket.Conn, error) {
	protocols := []string{protocolV5, protocolV4}
	if r.Stdin != nil {
		protocols = protocols[:1]
	}
	at := Pods(r.Namespace, r.Pod)
	at.Sub = "exec"
	u := x.base.JoinPath(at.path())
	u.RawQuery = url.Values{"container": {r.Container}, "command": r.Command, "stdin": {strconv.FormatBool(r.Stdin != nil)}, "stdout": {"true"},
		"stderr": {strconv.FormatBool(r.Terminal == nil)}, "tty": {strconv.FormatBool(r.Terminal != nil)}}.Encode()
	rt, holder, err := transport.RoundTripperFor(x.config)
	if err != nil {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: op, Provider: x.provider, Err: err}
	}
	inner, cancel := x.bound(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(inner, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: op, Provider: x.provider, Err: err}
	}
	conn, err := transport.Negotiate(rt, holder, req, protocols...)
	if err == nil {
		return conn, nil
	}
	var st *apierrors.StatusError
	switch {
	case errors.As(err, &st):
		e := &sdk.Error{Op: op, Provider: x.provider, Err: st}
		classify(e, st.ErrStatus)
		return nil, e
	case errors.Is(err, websocket.ErrBadHandshake):
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Provider: x.provider, Err: err,
			Remedy: "the API server, or what lies before it, takes no websocket; input needs Kubernetes 1.30"}
	}
	return nil, x.lost(ctx, inner, op, err)
}

// execSession is one connection.
type execSession struct {
	conn *websocket.Conn
	r    ExecRequest
	// send keeps two messages from being written at the same time.
	send sync.Mutex
	// done ends what writes.
	done chan struct{}
	all  sync.WaitGroup
}

func (s *execSession) close() {
	close(s.done)
	_ = s.conn.Close() // it was read to its end, or is left
	s.all.Wait()
}

// run reads until the connection's end. The error channel has the command's end;
// where it is empty, nothing is known (F92).
// https://github.com/kubernetes/kubernetes/issues/73056
func (s *execSession) run(ctx context.Context) ExecEnd {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	if s.r.Terminal != nil {
		s.resize(*s.r.Terminal)
	}
	s.all.Go(s.resizes)
	s.all.Go(s.pings)
	if s.r.Stdin != nil {
		go s.input() // a read that is under way is left behind
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(pingLost))
	s.conn.SetPongHandler(func(string) error { return s.conn.SetReadDeadline(time.Now().Add(pingLost)) })
	var end *metav1.Status
	for {
		_, data, err := s.conn.ReadMessage()
		switch {
		case err != nil && ctx.Err() != nil:
			return ExecEnd{Why: "the session was left (" + context.Cause(ctx).Error() + "); the command may go on"}
		case err != nil && end == nil:
			return ExecEnd{Why: "the connection ended before the command's end was told; it may go on: " + err.Error()}
		case err != nil:
			return endOf(end)
		}
		_ = s.conn.SetReadDeadline(time.Now().Add(pingLost))
		if len(data) < 2 {
			continue
		}
		switch channel, data := data[0], data[1:]; channel {
		case stdoutChannel:
			err = put(s.r.Stdout, data)
		case stderrChannel:
			err = put(s.r.Stderr, data)
		case errorChannel:
			st := metav1.Status{}
			if err := json.Unmarshal(data, &st); err != nil {
				return ExecEnd{Why: fmt.Sprintf("the server told the command's end in words that aren't known: %.200q", data)}
			}
			end = &st
		}
		if err != nil {
			return ExecEnd{Why: "the reader of the output is gone; the command may go on: " + err.Error()}
		}
	}
}

func put(w io.Writer, data []byte) error {
	if w == nil {
		return nil
	}
	_, err := w.Write(data)
	return err
}

// endOf reads the Status of a command's end: Success is 0, a Failure has the code as
// a cause. Any other Failure is of the way there.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/exec.go
func endOf(st *metav1.Status) ExecEnd {
	code := 0
	switch {
	case st.Status == metav1.StatusSuccess:
		return ExecEnd{Code: &code}
	case st.Details != nil && st.Reason == "NonZeroExitCode":
		for _, c := range st.Details.Causes {
			if n, err := strconv.Atoi(c.Message); err == nil && c.Type == "ExitCode" {
				return ExecEnd{Code: &n}
			}
		}
	}
	return ExecEnd{Why: "the node says: " + st.Message}
}

func (s *execSession) message(channel byte, data []byte) error {
	s.send.Lock()
	defer s.send.Unlock()
	return s.conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, data...))
}

// input passes stdin on, and then its end.
func (s *execSession) input() {
	buf := make([]byte, 32<<10)
	for {
		n, err := s.r.Stdin.Read(buf)
		select {
		case <-s.done:
			return
		default:
		}
		if n > 0 && s.message(stdinChannel, buf[:n]) != nil {
			return // the reader sees why
		}
		if err != nil {
			_ = s.message(closeChannel, []byte{stdinChannel}) // the reader sees why
			return
		}
	}
}

func (s *execSession) resize(size sdk.TerminalSize) {
	data, _ := json.Marshal(map[string]int{"Width": size.Columns, "Height": size.Rows}) //nolint:errchkjson // two numbers
	_ = s.message(resizeChannel, data)                                                  // the reader sees why
}

func (s *execSession) resizes() {
	for {
		select {
		case size, ok := <-s.r.Resize:
			if !ok {
				return
			}
			s.resize(size)
		case <-s.done:
			return
		}
	}
}

func (s *execSession) pings() {
	ticks := time.NewTicker(pingEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			_ = s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(pingEvery)) // the reader misses the answer
		case <-s.done:
			return
		}
	}
}
