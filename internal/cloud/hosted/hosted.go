// Package hosted is what the kind kubernetes and the clouds that run clusters for
// their customers say to each other: where a cluster's API server is, and with which
// token it is called. Each cloud's side stands beside its sessions, in a package of its
// own; the list of drivers joins them, so that neither imports the other.
package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Op is what the errors of finding a cluster are of.
const Op = "open provider"

// Cloud is one cloud's clusters, as a provider's config names them.
type Cloud struct {
	// Key is the member of config: that names a cluster of this cloud, such as "eks".
	Key string
	// Doc is a sentence on it, Fields are its members.
	Doc    string
	Fields []sdk.SchemaField
	// Open returns a way to the cluster that a config of those fields names. The
	// request has the variables of the cloud's own kinds as its credentials. Fields
	// of errors begin with "config.", without Key.
	Open func(ctx context.Context, r sdk.OpenRequest, config json.RawMessage) (Source, error)
}

// Field is the member of config: itself.
func (c Cloud) Field() sdk.SchemaField {
	return sdk.SchemaField{Name: c.Key, Type: sdk.TypeObject, Doc: c.Doc, Fields: c.Fields}
}

// Find opens a cluster's source and finds the cluster. The caller closes the source.
func (c Cloud) Find(ctx context.Context, r sdk.OpenRequest, config json.RawMessage) (Source, Cluster, error) {
	source, err := c.Open(ctx, r, config)
	if err != nil {
		return nil, Cluster{}, c.within(err)
	}
	cluster, err := source.Cluster(ctx)
	if err != nil {
		return nil, Cluster{}, errors.Join(c.within(err), source.Close())
	}
	return source, cluster, nil
}

// within has an error name the whole path of a member.
func (c Cloud) within(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	member, ok := strings.CutPrefix(e.Field, "config.")
	if !ok {
		return err
	}
	out := *e
	out.Field = "config." + c.Key + "." + member
	return &out
}

// Source is a way to one cluster. It is safe for concurrent use.
type Source interface {
	// Cluster asks the cloud where the cluster is: NotFound where there is none of that
	// name, PermissionDenied where the credentials may not see it, FailedPrecondition
	// where it has no API server yet.
	Cluster(ctx context.Context) (Cluster, error)
	// Token returns a token for the API server, a newer one where there may be one.
	Token(ctx context.Context) (Token, error)
	Close() error
}

// Cluster is where an API server is.
type Cluster struct {
	// Server is its address, https://HOST or https://HOST:PORT.
	Server string
	// Authority signs its certificate, as PEM; empty is this machine's own authorities.
	Authority []byte
	// Certificate and Key, as PEM, are a client's own, where the cloud gives out those.
	// Then there are no tokens.
	Certificate, Key []byte
	// Closed says what to do where the server can't be reached, of one that isn't open
	// to every network; else empty.
	Closed string
	// Stranger says what to do where the server doesn't know whose the token is.
	Stranger string
}

// Token is a bearer token.
type Token struct {
	Value string
	// Expires is when the API server takes it no more; zero is unknown.
	Expires time.Time
}

// Form compiles the pattern of a name when it is first needed.
func Form(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// Unseen is a copy of the error of a cluster that isn't there, or may not be seen, which
// names the cluster's member; nil for any other error. The cloud says what to do.
func Unseen(err error) *sdk.Error {
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.NotFound && e.Code != sdk.PermissionDenied {
		return nil
	}
	out := *e
	out.Field = "config.cluster"
	return &out
}
