package aws

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wholeBodies sends each request in one piece. The SDK closes a request's body
// as soon as a reply is there; with a server this quick, net/http may just then
// be looking for the body's end, take the closed body for a failure, and break
// the connection under the reply.
type wholeBodies struct{ next http.RoundTripper }

func (w wholeBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return w.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return w.next.RoundTrip(r)
}

// newServer returns a server that is closed with the test.
func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
