//go:build !linux

package cgroup

import (
	"context"
	"fmt"
	"syscall"

	"github.com/windlass-run/windlass/internal/driver/local/proc"
)

// Host has nothing here: control groups are Linux's.
type Host struct{}

// Detect returns a host that has nothing.
func Detect() (*Host, error) { return &Host{}, nil }

// Kind is empty.
func (h *Host) Kind() string { return "" }

// Lacks returns every limit that is set.
func (h *Host) Lacks(l Limits) []Lack {
	var out []Lack
	for _, c := range l.controllers() {
		out = append(out, Lack{Controller: c, Why: "this system has no control groups"})
	}
	return out
}

// Plan is a Lack, or ErrNone.
func (h *Host) Plan(_ string, l Limits) ([]Place, error) {
	if lacks := h.Lacks(l); len(lacks) > 0 {
		return nil, fmt.Errorf("plan cgroup: %w", lacks[0])
	}
	return nil, fmt.Errorf("plan cgroup: %w", ErrNone)
}

// Group is always empty here.
type Group struct{}

// At returns an empty group.
func At([]Place) *Group { return &Group{} }

// IsZero is true.
func (g *Group) IsZero() bool { return true }

// Make does nothing.
func (g *Group) Make(Limits) error { return nil }

// Start calls start.
func (g *Group) Start(_ Limits, start func(attr *syscall.SysProcAttr) error) error {
	return start(&syscall.SysProcAttr{})
}

// Find returns nothing.
func (g *Group) Find() ([]proc.Identity, error) { return nil, nil }

// Kill does nothing.
func (g *Group) Kill() (int, error) { return 0, nil }

// KillUntilGone does nothing.
func (g *Group) KillUntilGone(context.Context) (int, error) { return 0, nil }

// OOMKills is 0.
func (g *Group) OOMKills() int64 { return 0 }

// Remove does nothing.
func (g *Group) Remove(context.Context) error { return nil }

// Paths is empty.
func (g *Group) Paths() []string { return nil }
