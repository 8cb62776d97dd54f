// Package cgroup puts a job's processes into control groups of Linux, of
// version 1, 2 or both as this machine has them. A group bounds what its
// processes use and names them all, so that none escapes being ended.
//
// Groups are made below the caller's own, so that whatever bounds the caller
// bounds the job too.
package cgroup

import (
	"errors"
	"fmt"
)

// Limits are what a group may bound. Zero is no limit.
type Limits struct {
	// Memory is in bytes, CPU in thousandths of a core.
	Memory int64 `json:"memory,omitzero"`
	CPU    int64 `json:"cpu,omitzero"`
	PIDs   int64 `json:"pids,omitzero"`
}

// IsZero reports whether nothing is bounded.
func (l Limits) IsZero() bool { return l == Limits{} }

// MinCPU is the smallest share of a core that can be set, in thousandths.
const MinCPU = 10

// The controllers that we use.
const (
	memory  = "memory"
	cpu     = "cpu"
	pids    = "pids"
	freezer = "freezer"
)

// controllers returns the names of what the limits need.
func (l Limits) controllers() []string {
	var out []string
	if l.CPU > 0 {
		out = append(out, cpu)
	}
	if l.Memory > 0 {
		out = append(out, memory)
	}
	if l.PIDs > 0 {
		out = append(out, pids)
	}
	return out
}

// Place is one folder of a group, which may have one in every hierarchy.
type Place struct {
	Path string `json:"path"`
	// V is the hierarchy's version, 1 or 2.
	V int `json:"v"`
	// Controllers are those of ours that work here.
	Controllers []string `json:"controllers,omitzero"`
	// Home is the caller's own group in a hierarchy of version 1.
	Home string `json:"home,omitzero"`
	// Enable: the controllers must be turned on for the parent's children.
	Enable bool `json:"enable,omitzero"`
}

// Prefix starts the name of every group of ours.
const Prefix = "windlass-"

// ErrNone says that no group can be made here.
var ErrNone = errors.New("no control group can be made here")

// Lack is a limit that can't be set here.
type Lack struct {
	// Controller is memory, cpu or pids.
	Controller string
	Why        string
}

func (l Lack) Error() string { return fmt.Sprintf("the %s controller: %s", l.Controller, l.Why) }
