package azure

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"
	"github.com/gorilla/websocket"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// ActionExecSession is the name under which Faults and Calls have a session's
// connection. Reset cuts it before the command is run, Drop once the command has
// ended, with its output unsent.
const ActionExecSession = "ExecSession"

const (
	execPath = "/exec/"
	// sessionWait bounds the time from the call to its connection, and from there
	// to the password; the real one isn't published.
	sessionWait = time.Minute
)

// session is a command that was asked for and waits for its connection.
type session struct {
	password string
	process  run.Container
	// program is the whole text that was asked for.
	program string
	size    run.TerminalSize
	made    time.Time
}

// executeCommand begins a session. The command is one program without arguments:
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-exec#restrictions
func (s *Server) executeCommand(c *call) (result, *Error) {
	g, e := s.find(c)
	if e != nil {
		return result{}, e
	}
	var in arm.ContainerExecRequest
	if e := read(c.body, s.shapes.exec, &in); e != nil {
		return result{}, e
	}
	if in.Command == nil || strings.TrimSpace(*in.Command) == "" {
		return result{}, refuse(ruleExecCommand, "The command of an exec request is missing.")
	}
	size := run.TerminalSize{}
	if t := in.TerminalSize; t != nil {
		for n, into := range map[*int32]*uint16{t.Cols: &size.Columns, t.Rows: &size.Rows} {
			if n == nil {
				continue
			}
			if *n < 1 || *n > 1<<15 {
				return result{}, refuse(ruleExecCommand, "The terminal size %d is out of range.", *n)
			}
			*into = uint16(*n)
		}
	}
	for _, own := range g.Containers {
		if !strings.EqualFold(own.Name, c.path["container"]) {
			continue
		}
		if own.process == nil {
			return result{}, refuse(ruleExecRunning, "The container '%s' in container group '%s' is not running.", own.Name, g.name())
		}
		for key, old := range s.sessions {
			if time.Since(old.made) > sessionWait {
				delete(s.sessions, key)
			}
		}
		key, password := randomID(), randomID()
		s.sessions[key] = &session{password: password, process: own.process, program: *in.Command, size: size, made: time.Now()}
		at := "wss" + strings.TrimPrefix(c.base(), "https")
		if c.request.TLS == nil {
			at = "ws" + strings.TrimPrefix(c.base(), "http")
		}
		return result{http.StatusOK, arm.ContainerExecResponse{WebSocketURI: to.Ptr(at + execPath + key), Password: &password}}, nil
	}
	return result{}, refuse(ruleContainer, "The container '%s' in container group '%s' was not found.", c.path["container"], g.name())
}

// serveSession carries a terminal over a websocket: the client's first message is
// the password, all others are keys, and what the command writes comes in binary
// messages. The command's end closes the connection, and tells no exit code.
// https://github.com/Azure/azure-cli/blob/dev/src/azure-cli/azure/cli/command_modules/container/custom.py
func (s *Server) serveSession(w http.ResponseWriter, r *http.Request, key string) {
	s.mu.Lock()
	own, closed := s.sessions[key], s.closed
	delete(s.sessions, key)
	if own != nil && !closed {
		s.lives.Add(1)
		defer s.lives.Done()
	}
	s.mu.Unlock()
	if own == nil || closed {
		http.Error(w, "There is no such session.", http.StatusNotFound)
		return
	}
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer func() { _ = conn.Close() }() // it may be closed
	ended := make(chan struct{})
	defer close(ended)
	s.lives.Go(func() {
		select {
		case <-s.end:
			_ = conn.Close()
		case <-ended:
		}
	})
	_ = conn.SetReadDeadline(time.Now().Add(sessionWait)) // a connection of ours
	_, first, err := conn.ReadMessage()
	if err != nil || subtle.ConstantTimeCompare(first, []byte(own.password)) != 1 {
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "wrong password"), time.Now().Add(time.Second))
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	effect := s.faults.Next(ActionExecSession, []byte(own.program))
	s.calls.Add(fault.Call{Action: ActionExecSession, At: s.o.Now(), Request: []byte(own.program), Lost: effect.Reset || effect.Drop})
	if effect.Wait(r.Context()) != nil || effect.Reset {
		return
	}
	code, text, left := s.runSession(conn, own, effect.Drop)
	if effect.Drop {
		return
	}
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(time.Second)) // the client may be gone
	// A connection that is closed with something unread loses what was sent.
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
	}
}

// closeWait bounds the wait for a client's answer to the end of its session.
const closeWait = 5 * time.Second

// runSession runs a session's command to its end, or to that of the connection.
// Left is closed when the client sends nothing more.
func (s *Server) runSession(conn *websocket.Conn, own *session, mute bool) (code int, text string, left <-chan struct{}) {
	var terminal run.Terminal
	err := errNoTerminals
	if opener, ok := own.process.(run.TerminalOpener); ok {
		terminal, err = opener.OpenTerminal(context.Background(), []string{own.program}, own.size)
	}
	gone := make(chan struct{})
	s.lives.Go(func() {
		defer close(gone)
		for {
			_, keys, err := conn.ReadMessage()
			switch {
			case terminal == nil && err == nil:
			case terminal == nil:
				return
			case err != nil:
				_ = terminal.Close() // the client has gone
				return
			default:
				_, _ = terminal.Write(keys) // one that has ended takes none
			}
		}
	})
	var start *run.StartError
	switch {
	case errors.As(err, &start):
		// A client that has gone misses nothing that counts.
		_ = conn.WriteMessage(websocket.BinaryMessage, []byte("rpc error: code = Unknown desc = failed to exec in container: OCI runtime exec failed: "+start.Text+"\r\n"))
		return websocket.CloseNormalClosure, "", gone
	case err != nil:
		return websocket.CloseInternalServerErr, err.Error(), gone
	}
	buffer := make([]byte, 16<<10)
	for {
		n, err := terminal.Read(buffer)
		if n > 0 && !mute && conn.WriteMessage(websocket.BinaryMessage, buffer[:n]) != nil {
			break
		}
		if err != nil {
			break
		}
	}
	_ = terminal.Close() // its command has ended, or nobody listens
	return websocket.CloseNormalClosure, "", gone
}

var errNoTerminals = errors.New("this executor runs no further commands")
