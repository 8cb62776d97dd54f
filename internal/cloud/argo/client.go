package argo

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/kube"
)

// Client does what there is to do with Workflows of one namespace. Each method makes
// one call, but for List, and sends it once. Errors are *sdk.Error with the class that
// the API gave: NotFound, AlreadyExists and so on.
type Client interface {
	// Create makes a Workflow and returns it as it was stored.
	Create(ctx context.Context, op string, w *Workflow) (*Workflow, error)
	// Get reads a Workflow, from the archive where the client has one and the cluster
	// has it no more.
	Get(ctx context.Context, op, name string) (*Workflow, error)
	// List reads all Workflows that a label selector chooses, in pages.
	List(ctx context.Context, op, selector string) ([]Workflow, error)
	// Terminate asks the controller to end a Workflow's pods. It says nothing of when
	// they have.
	Terminate(ctx context.Context, op, name, uid string) error
	// Delete deletes a Workflow; its pods go in the background.
	Delete(ctx context.Context, op, name, uid string) error
}

// Spend makes a call when the budget allows.
type Spend func(ctx context.Context, op string, call func() error) error

// cluster speaks to the Kubernetes API.
type cluster struct {
	session *kube.Session
	spend   Spend
}

var _ Client = (*cluster)(nil)

// OnCluster is a client on the Kubernetes API.
func OnCluster(x *kube.Session, spend Spend) Client { return &cluster{x, spend} }

// Place is that of a Workflow; an empty name is all of the namespace.
func Place(namespace, name string) kube.Place {
	return kube.Place{Group: "apis/" + Version, Namespace: namespace, Resource: "workflows", Name: name}
}

// Create implements Client.
func (c *cluster) Create(ctx context.Context, op string, w *Workflow) (*Workflow, error) {
	out := &Workflow{}
	err := c.spend(ctx, op, func() error { return c.session.Create(ctx, op, Place(c.session.Namespace, ""), w, out) })
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Get implements Client.
func (c *cluster) Get(ctx context.Context, op, name string) (*Workflow, error) {
	out := &Workflow{}
	err := c.spend(ctx, op, func() error { return c.session.Get(ctx, op, Place(c.session.Namespace, name), nil, out) })
	if err != nil {
		return nil, err
	}
	return out, nil
}

// List implements Client.
func (c *cluster) List(ctx context.Context, op, selector string) ([]Workflow, error) {
	return kube.List(selector, func(query url.Values, page *list) error {
		return c.spend(ctx, op, func() error { return c.session.Get(ctx, op, Place(c.session.Namespace, ""), query, page) })
	}, items)
}

// Terminate implements Client: it is what Argo's own command line sends.
// https://argo-workflows.readthedocs.io/en/latest/cli/argo_terminate/
func (c *cluster) Terminate(ctx context.Context, op, name, uid string) error {
	patch := map[string]any{"metadata": map[string]any{"uid": uid}, "spec": map[string]any{"shutdown": "Terminate"}}
	return c.spend(ctx, op, func() error { return c.session.Patch(ctx, op, Place(c.session.Namespace, name), patch, nil) })
}

// Delete implements Client.
func (c *cluster) Delete(ctx context.Context, op, name, uid string) error {
	return c.spend(ctx, op, func() error { return c.session.Delete(ctx, op, Place(c.session.Namespace, name), uid) })
}

func items(l *list) ([]Workflow, string) { return l.Items, l.Continue }

// Server speaks to Argo Server.
// https://argo-workflows.readthedocs.io/en/latest/rest-api/
type Server struct {
	session *kube.Session
	spend   Spend
}

var _ Client = (*Server)(nil)

// OnServer is a client on Argo Server. The session's refusals are read by [Words].
func OnServer(x *kube.Session, spend Spend) *Server { return &Server{x, spend} }

func (s *Server) at(name, verb string) kube.Place {
	return kube.Place{Group: "api/v1/workflows/" + url.PathEscape(s.session.Namespace), Resource: name, Name: verb}
}

func (s *Server) send(ctx context.Context, op, method string, at kube.Place, query url.Values, body, out any) error {
	return s.spend(ctx, op, func() error { return s.session.Send(ctx, op, method, at, query, body, out) })
}

// Create implements Client.
func (s *Server) Create(ctx context.Context, op string, w *Workflow) (*Workflow, error) {
	out := &Workflow{}
	body := map[string]any{"namespace": s.session.Namespace, "workflow": w}
	if err := s.send(ctx, op, http.MethodPost, s.at("", ""), nil, body, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Get implements Client.
func (s *Server) Get(ctx context.Context, op, name string) (*Workflow, error) {
	out := &Workflow{}
	if err := s.send(ctx, op, http.MethodGet, s.at(name, ""), nil, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// List implements Client.
func (s *Server) List(ctx context.Context, op, selector string) ([]Workflow, error) {
	return kube.List(selector, func(query url.Values, page *list) error {
		q := url.Values{}
		for k, v := range query {
			q["listOptions."+k] = v
		}
		return s.send(ctx, op, http.MethodGet, s.at("", ""), q, nil, page)
	}, items)
}

// Terminate implements Client. The UID isn't checked by the server.
func (s *Server) Terminate(ctx context.Context, op, name, _ string) error {
	body := map[string]any{"namespace": s.session.Namespace, "name": name}
	return s.send(ctx, op, http.MethodPut, s.at(name, "terminate"), nil, body, nil)
}

// Delete implements Client. The UID isn't checked by the server.
func (s *Server) Delete(ctx context.Context, op, name, _ string) error {
	return s.send(ctx, op, http.MethodDelete, s.at(name, ""), nil, nil, nil)
}

// logQuery asks for the log of a Workflow's container, each line behind its stamp.
func logQuery(container string, since time.Time, follow bool) url.Values {
	q := url.Values{"logOptions.container": {container}, "logOptions.timestamps": {"true"}}
	if follow {
		q.Set("logOptions.follow", "true")
	}
	if !since.IsZero() {
		q.Set("logOptions.sinceTime.seconds", decimal(since.Unix()))
	}
	return q
}
