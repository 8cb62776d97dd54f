package sdk

import (
	"context"
	"iter"
	"time"
)

// OwnedLister knows everything that we make on a backend: jobs, definitions,
// secrets, policies, apps.
type OwnedLister interface {
	// ListOwned gives every object that carries our labels, of the owner or, if
	// that is empty, of all owners.
	ListOwned(ctx context.Context, r ListOwnedRequest) iter.Seq2[OwnedObject, error]
	// RemoveOwned removes one object. Gone is success. An object whose labels
	// are no longer those that were listed is FailedPrecondition.
	RemoveOwned(ctx context.Context, r RemoveOwnedRequest) (RemoveOwnedResult, error)
}

// ListOwnedRequest asks for what an owner has.
type ListOwnedRequest struct{ Owner string }

// OwnedObject is one object with our labels.
type OwnedObject struct {
	// Type is the backend's word, such as "container" or "task-definition".
	Type string
	// ID is what RemoveOwned needs; Name is for people.
	ID, Name  string
	RunID     ID
	AttemptID ID
	Owner     string
	LedgerID  string
	CreatedAt time.Time
	// Started and Ended bound the time for which it holds what Size says, as the
	// backend tells it; zero is not yet, or unknown.
	Started, Ended time.Time
	// Expires is the label; zero is none.
	Expires time.Time
	// Live: it runs, or others use it.
	Live bool
	// Shared: it belongs to no single run, such as a definition.
	Shared bool
	// State is the backend's word.
	State string
	// Size is what the backend gives it while it runs.
	Size OwnedSize
}

// OwnedSize is what an object's price depends on. Zero members are unknown, or
// have no bound.
type OwnedSize struct {
	// CPU is in thousandths of a core; Memory and Disk are in bytes.
	CPU, Memory, Disk int64
	// Class is the backend's word for what it runs on or is sold as:
	// "FARGATE/ARM64", "EC2", "apps-s-1vcpu-1gb".
	Class string
}

// RemoveOwnedRequest removes an object as ListOwned gave it.
type RemoveOwnedRequest struct{ Object OwnedObject }

// RemoveOwnedResult is empty.
type RemoveOwnedResult struct{}

// ExpiryRenewer moves expiries, on backends whose labels can change.
type ExpiryRenewer interface {
	// RenewExpiry sets the expiry of everything that the attempt made.
	RenewExpiry(ctx context.Context, r RenewExpiryRequest) (RenewExpiryResult, error)
}

// RenewExpiryRequest moves the expiry of an attempt's objects.
type RenewExpiryRequest struct {
	Handle  JobHandle
	Expires time.Time
}

// RenewExpiryResult is empty.
type RenewExpiryResult struct{}
