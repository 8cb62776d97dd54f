package providertest

import (
	"context"
	"sync"

	"github.com/windlass-run/windlass/sdk"
)

// Secrets is a resolver whose values the suite sets. References are of the
// scheme env.
type Secrets struct {
	mu     sync.Mutex
	values map[sdk.SecretRef][]byte
}

var _ sdk.SecretResolver = (*Secrets)(nil)

// Set stores a value under secret://env/NAME and returns the reference.
func (s *Secrets) Set(name string, value []byte) sdk.SecretRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[sdk.SecretRef][]byte{}
	}
	ref := sdk.SecretRef("secret://env/" + name)
	s.values[ref] = append([]byte(nil), value...)
	return ref
}

// ResolveSecret implements sdk.SecretResolver.
func (s *Secrets) ResolveSecret(ctx context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	if err := ctx.Err(); err != nil {
		return sdk.SecretValue{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[ref]
	if !ok {
		return sdk.SecretValue{}, sdk.Errorf(sdk.NotFound, "resolve secret", "%s is not set", ref)
	}
	return sdk.NewSecretValue(append([]byte(nil), v...)), nil
}
