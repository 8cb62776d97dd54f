//go:build linux

package iac

import (
	"context"
	"path"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk/providertest"
)

// faults misbehave in front of a yard.
type faults struct {
	cut func()

	mu       sync.Mutex
	lose     map[string]bool
	refuse   map[string]bool
	throttle map[string]int
	block    map[string]*gate
}

// gate holds calls up.
type gate struct {
	entered chan struct{}
	open    chan struct{}
}

// method is the wire's for one of the contract's.
func method(op providertest.Op) string {
	if op == providertest.OpCheck {
		return "Version"
	}
	return string(op)
}

// before is asked when a call has come; an error is its answer.
func (f *faults) before(ctx context.Context, full string) (lose bool, err error) {
	name := path.Base(full)
	f.mu.Lock()
	lose, refuse, g := f.lose[name], f.refuse[name], f.block[name]
	delete(f.lose, name)
	delete(f.refuse, name)
	throttled := f.throttle[name] > 0
	if throttled {
		f.throttle[name]--
	}
	f.mu.Unlock()
	switch {
	case refuse:
		f.cut()
		return false, status.Error(codes.Unavailable, "cut")
	case throttled:
		return false, status.Error(codes.ResourceExhausted, "too many calls")
	case g != nil:
		g.entered <- struct{}{}
		select {
		case <-g.open:
		case <-ctx.Done():
		}
	}
	return lose, nil
}

func (f *faults) unary(y *yard) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		y.count(path.Base(info.FullMethod))
		lose, err := f.before(ctx, info.FullMethod)
		if err != nil {
			return nil, err
		}
		out, err := next(ctx, req)
		if lose {
			f.cut()
		}
		return out, err
	}
}

func (f *faults) stream(y *yard) grpc.StreamServerInterceptor {
	return func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		y.count(path.Base(info.FullMethod))
		if _, err := f.before(s.Context(), info.FullMethod); err != nil {
			return err
		}
		return next(srv, s)
	}
}

func set[V any](f *faults, m *map[string]V, op providertest.Op, v V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[method(op)] = v
}

// harness returns the faults as the suite wants them.
func (f *faults) harness() providertest.Faults {
	return providertest.Faults{
		LoseReply: func(_ providertest.T, op providertest.Op) { set(f, &f.lose, op, true) },
		Refuse:    func(_ providertest.T, op providertest.Op) { set(f, &f.refuse, op, true) },
		Throttle:  func(_ providertest.T, op providertest.Op, n int) { set(f, &f.throttle, op, n) },
		Block: func(_ providertest.T, op providertest.Op) (<-chan struct{}, func(), bool) {
			g := &gate{entered: make(chan struct{}, 100), open: make(chan struct{})}
			set(f, &f.block, op, g)
			return g.entered, sync.OnceFunc(func() {
				set(f, &f.block, op, nil)
				close(g.open)
			}), true
		},
	}
}
