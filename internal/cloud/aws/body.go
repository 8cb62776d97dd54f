package aws

import (
	"io"
	"net/http"
)

// plainBodies hides from net/http that the vendor's request bodies can write
// themselves. The vendor's client closes a body as soon as there is an answer;
// of a closed one, WriteTo says io.EOF, which net/http takes for a failure of
// the write: it then breaks the connection under the answer that is being read.
// Read says io.EOF too, which is no failure.
type plainBodies struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p plainBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return p.next.RoundTrip(r)
	}
	c := *r
	c.Body = struct{ io.ReadCloser }{r.Body}
	return p.next.RoundTrip(&c)
}
