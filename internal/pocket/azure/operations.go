package azure

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// operation is what goes on after the reply to a call. See
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/async-operations
type operation struct {
	id         string
	status     string
	started    time.Time
	ended      time.Time
	code, text string // of a failure
}

// The states of an operation, which are also a group's provisioning states.
const (
	statusRunning = "InProgress"
	succeeded     = "Succeeded"
	failed        = "Failed"
	pending       = "Pending"
	creating      = "Creating"
	running       = "Running"
	stopped       = "Stopped"
	canceled      = "Canceled"
)

// operationLife is how long an operation is remembered once it has ended.
const operationLife = 24 * time.Hour

// begin makes an operation. The lock is held.
func (s *Server) begin(now time.Time) *operation {
	for id, o := range s.operations {
		if !o.ended.IsZero() && now.Sub(o.ended) > operationLife {
			delete(s.operations, id)
		}
	}
	o := &operation{id: uuid(s.o.NewID()), status: statusRunning, started: now}
	s.operations[o.id] = o
	return o
}

// conclude ends an operation, once. An empty code means success. The lock is
// held.
func (s *Server) conclude(o *operation, code, text string) {
	if o == nil || !o.ended.IsZero() {
		return
	}
	o.ended, o.status, o.code, o.text = s.o.Now(), succeeded, code, text
	if code != "" {
		o.status = failed
	}
	if code == canceled {
		o.status = canceled
	}
}

// announce tells the caller where to follow an operation. Location is for calls
// that come to nothing but their end.
func (s *Server) announce(c *call, o *operation, location bool) {
	at := c.base() + "/subscriptions/" + s.o.SubscriptionID + "/providers/Microsoft.ContainerInstance/locations/" + s.o.Location + "/"
	version := "?api-version=" + c.request.URL.Query().Get("api-version")
	c.header.Set("Azure-AsyncOperation", at+"operations/"+o.id+version)
	if location {
		c.header.Set("Location", at+"operationresults/"+o.id+version)
	}
	s.retryAfter(c)
}

func (s *Server) retryAfter(c *call) {
	if wait := s.knobs.RetryAfter; wait > 0 {
		c.header.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
}

func (s *Server) findOperation(c *call) (*operation, *Error) {
	o := s.operations[strings.ToLower(c.path["operation"])]
	if o == nil || !strings.EqualFold(c.path["location"], s.o.Location) {
		return nil, refuse(ruleOperation, "The operation '%s' was not found.", c.path["operation"])
	}
	return o, nil
}

func (s *Server) getOperation(c *call) (result, *Error) {
	o, e := s.findOperation(c)
	if e != nil {
		return result{}, e
	}
	out := map[string]any{"id": c.request.URL.Path, "name": o.id, "status": o.status, "startTime": stamp(o.started)}
	if !o.ended.IsZero() {
		out["endTime"] = stamp(o.ended)
	} else {
		s.retryAfter(c)
	}
	if o.code != "" {
		out["error"] = map[string]string{"code": o.code, "message": o.text}
	}
	return result{http.StatusOK, out}, nil
}

// getOperationResult is 202 until an operation has ended.
func (s *Server) getOperationResult(c *call) (result, *Error) {
	o, e := s.findOperation(c)
	if e != nil {
		return result{}, e
	}
	switch o.status {
	case statusRunning:
		s.announce(c, o, true)
		return result{status: http.StatusAccepted}, nil
	case failed, canceled:
		return result{}, &Error{Status: http.StatusConflict, Code: o.code, Message: o.text}
	}
	return result{status: http.StatusNoContent}, nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z") }
