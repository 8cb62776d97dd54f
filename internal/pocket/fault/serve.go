package fault

import (
	"net"
	"net/http"
	"strconv"
	"time"
)

// Reply is a whole HTTP answer.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Server carries out calls under a plan and records them.
type Server struct {
	Plan     *Plan
	Recorder *Recorder
	// Now is the pocket cloud's clock.
	Now func() time.Time
}

// Serve answers one call. Do carries it out; refuse words a refusal as the API
// does.
func (s Server) Serve(w http.ResponseWriter, r *http.Request, action string, body []byte, do func() Reply, refuse func(Refusal) Reply) {
	call := Call{Action: action, At: s.Now(), Request: body}
	effect := s.Plan.Next(action, body)
	if effect.Wait(r.Context()) != nil {
		call.Lost = true
		s.Recorder.Add(call)
		return
	}
	if effect.Reset {
		call.Lost = true
		s.Recorder.Add(call)
		cut(w)
		return
	}
	var reply Reply
	if effect.Refuse != nil {
		reply = refuse(*effect.Refuse)
		if after := effect.Refuse.RetryAfter; after > 0 {
			if reply.Header == nil {
				reply.Header = http.Header{}
			}
			reply.Header.Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
		}
	} else {
		reply = do()
	}
	call.Reply, call.Status, call.Lost = reply.Body, reply.Status, effect.Drop
	s.Recorder.Add(call)
	if effect.Drop {
		cut(w)
		return
	}
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(reply.Body)))
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body) // a caller that has gone misses nothing that counts
}

// cut ends the connection without an answer: by a reset where it can be had,
// else by the way in which net/http aborts a handler.
func cut(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // without it the end is a plain close, which does as well
			}
			_ = conn.Close() // it is to be broken
			return
		}
	}
	panic(http.ErrAbortHandler)
}
