package credential

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/windlass-run/windlass/sdk"
)

// handoverVersion is the version of the form that Encode writes.
const handoverVersion = 1

type handover struct {
	V       int               `json:"v"`
	Ambient bool              `json:"ambient,omitzero"`
	Values  map[string][]byte `json:"values,omitzero"`
}

// Encode returns the values as JSON, to be sent over the background process's
// own socket of mode 0600 and nowhere else: never to a file, a log or a ledger.
func (c Credentials) Encode() ([]byte, error) {
	h := handover{V: handoverVersion, Ambient: c.ambient, Values: make(map[string][]byte, len(c.values))}
	for k, v := range c.values {
		h.Values[k] = v.Reveal()
	}
	return json.Marshal(h)
}

// Decode reads what Encode wrote. No error holds a value.
func Decode(data []byte) (Credentials, error) {
	var h handover
	if json.Unmarshal(data, &h) != nil || h.V == 0 {
		return Credentials{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "read credentials", ID: ErrBadHandover, Err: fmt.Errorf("not in the form that is handed over")}
	}
	if h.V > handoverVersion {
		return Credentials{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: "read credentials", ID: ErrBadHandover, Remedy: "use a newer windlass",
			Err: fmt.Errorf("handed over in version %d, this program reads up to %d", h.V, handoverVersion)}
	}
	c := Credentials{values: make(map[string]sdk.SecretValue, len(h.Values)), ambient: h.Ambient}
	for k, v := range h.Values {
		c.values[k] = sdk.NewSecretValue(v)
	}
	return c, nil
}

// Held is a resolver over credentials that were handed over. It keeps them in
// memory alone. The zero value holds none; it is safe for concurrent use.
type Held struct {
	mu sync.RWMutex
	by map[string]Credentials
}

var _ CredentialResolver = (*Held)(nil)

// Put holds a provider's credentials in place of earlier ones, and reports
// whether they differ from those.
func (h *Held) Put(provider string, c Credentials) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old, ok := h.by[provider]
	if h.by == nil {
		h.by = map[string]Credentials{}
	}
	h.by[provider] = c
	return !ok || !old.Equal(c)
}

// Drop forgets a provider's credentials.
func (h *Held) Drop(provider string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.by, provider)
}

// ResolveCredentials returns what was handed over for the provider.
func (h *Held) ResolveCredentials(ctx context.Context, r ResolveRequest) (Credentials, error) {
	if ctx.Err() != nil {
		return Credentials{}, fmt.Errorf("resolve credentials: %w", context.Cause(ctx))
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	c, ok := h.by[r.Provider]
	if !ok {
		return Credentials{}, fail(r, sdk.Unauthenticated, ErrNotHeld, "run any command that uses the provider, such as windlass status", "no command has handed over credentials")
	}
	return c, nil
}
