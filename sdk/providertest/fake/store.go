package fake

import (
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// store keeps a cloud's jobs. Facts are written once: of two cancels the first
// counts. Views are shared and never change. Implementations are safe for
// concurrent use.
type store interface {
	// create stores a job unless one of its ID is there, and counts an object
	// of its attempt if it did.
	create(rec *record) (created bool, err error)
	// load returns nil for a job that isn't there.
	load(id string) (*view, error)
	// cancel and endStdin set the fact's time, so that nobody who took the
	// time before loading a job can have seen what the fact changes.
	cancel(id string, f cancelFact) error
	endStdin(id string, f stdinFact) error
	expire(id string, at time.Time) error
	// remove reports whether the job was there.
	remove(id string) (bool, error)
	// ofAttempt and ofRun return jobs in order of ID.
	ofAttempt(attempt sdk.ID) ([]*view, error)
	ofRun(run sdk.ID) ([]*view, error)
	all() ([]*view, error)
	// made counts the objects that an attempt ever made.
	made(attempt sdk.ID) (int, error)
	// marks counts marks of jobs that were removed.
	marks(key string) (int, error)
	// keepMarks adds to that count.
	keepMarks(keys []string) error
	// workload returns the newest version of a workload, nil where there is none.
	workload(path sdk.WorkloadPath) (*deployment, error)
	// putWorkload stores a version, unless its number isn't the next one.
	putWorkload(d *deployment) (stored bool, err error)
	// workloads returns the newest versions, in order of path.
	workloads() ([]*deployment, error)
	// count adds a call and returns how many there were, this one included.
	count(op Op) (int64, error)
	counted(op Op) (int64, error)
	// claim returns true for the first who claims a name.
	claim(name string) (bool, error)
	// keepBody stores a request.
	keepBody(b Body) error
	bodies() ([]Body, error)
	// createResource stores a resource unless one of its name is there.
	createResource(r *resource) (created bool, err error)
	// loadResource returns nil for a resource that isn't there.
	loadResource(name string) (*resource, error)
	replaceResource(r *resource) error
	removeResource(name string) error
	// blocked reports whether a user holds calls of op up; poll tells that this
	// can change without notice.
	blocked(op Op) bool
	poll() bool
}
