package aws

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// eager is a body as the vendor's: it can write itself, and says io.EOF once it
// is closed. Its last read is followed by its close, as an early answer does.
type eager struct {
	*strings.Reader
	closed bool
}

func (e *eager) Read(p []byte) (int, error) {
	if e.closed {
		return 0, io.EOF
	}
	n, err := e.Reader.Read(p)
	e.closed = e.Len() == 0
	return n, err
}

func (e *eager) WriteTo(w io.Writer) (int64, error) {
	if e.closed {
		return 0, io.EOF
	}
	return e.Reader.WriteTo(w)
}

func (e *eager) Close() error {
	e.closed = true
	return nil
}

// TestClosedBody: an answer that comes before the vendor's client has let go of
// the request's body doesn't break the connection.
func TestClosedBody(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = w.Write(got)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	transport, err := newTransport("")
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	want := strings.Repeat("x", 100000)
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, &eager{Reader: strings.NewReader(want)})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = int64(len(want))
		res, err := plainBodies{transport}.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil || string(got) != want {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}
