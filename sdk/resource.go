package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// ResourceDriver keeps what stands on a backend beside jobs and workloads, such as
// a network or a log group, as a file describes it. Its verbs and values are those
// of the published ecosystem's ResourceDriver; each method has the verb and then
// Resource, since a provider is one value with the methods of all its capabilities.
//
// A type that Driver.Resources doesn't name is InvalidArgument, and so is a config
// that the type's schema refuses; a verb that a type hasn't is Unimplemented, with
// the reason. What was made by somebody else may be read and compared, and is
// changed by nobody here: FailedPrecondition.
type ResourceDriver interface {
	// CreateResource makes a resource. A name that is taken is AlreadyExists,
	// unless it was taken by an earlier send of the same OpID: then it is what
	// that one made.
	CreateResource(ctx context.Context, r CreateResourceRequest) (CreateResourceResult, error)
	// ReadResource tells what there is. A resource that isn't there is NotFound.
	ReadResource(ctx context.Context, r ReadResourceRequest) (ReadResourceResult, error)
	// UpdateResource brings a resource to what the spec says, where that needs no
	// other in its place: such a change is FailedPrecondition, and changes nothing.
	UpdateResource(ctx context.Context, r UpdateResourceRequest) (UpdateResourceResult, error)
	// DeleteResource removes a resource. It is idempotent, and gone is success.
	DeleteResource(ctx context.Context, r DeleteResourceRequest) (DeleteResourceResult, error)
	// DiffResource compares what is wanted with what ReadResource gave. It changes
	// nothing. With the empty object as outputs it tells whether CreateResource would
	// take the spec: what it wouldn't is InvalidArgument, as there, with its Field.
	DiffResource(ctx context.Context, r DiffResourceRequest) (DiffResourceResult, error)
	// ScaleResource sets the number of replicas.
	ScaleResource(ctx context.Context, r ScaleResourceRequest) (ScaleResourceResult, error)
	// HealthCheckResource tells whether a resource is fit for use. It changes
	// nothing; a resource that isn't there is NotFound.
	HealthCheckResource(ctx context.Context, r HealthCheckResourceRequest) (HealthCheckResourceResult, error)
	// SensitiveKeys names the members of a type's outputs and configs that nobody
	// is to see. Where it fails, the caller shows no value at all.
	SensitiveKeys(ctx context.Context, r SensitiveKeysRequest) (SensitiveKeysResult, error)
}

// Troubleshooter says why a resource isn't as it should be.
type Troubleshooter interface {
	// TroubleshootResource changes nothing. No diagnostic is an answer: nothing
	// was found.
	TroubleshootResource(ctx context.Context, r TroubleshootResourceRequest) (TroubleshootResourceResult, error)
}

// ResourceVerb is a method of ResourceDriver or Troubleshooter, as a table names it.
type ResourceVerb string

// The verbs. SensitiveKeys is none: every type has it.
const (
	VerbCreate       ResourceVerb = "create"
	VerbRead         ResourceVerb = "read"
	VerbUpdate       ResourceVerb = "update"
	VerbDelete       ResourceVerb = "delete"
	VerbDiff         ResourceVerb = "diff"
	VerbScale        ResourceVerb = "scale"
	VerbHealth       ResourceVerb = "health"
	VerbTroubleshoot ResourceVerb = "troubleshoot"
)

// ResourceVerbs returns every verb.
func ResourceVerbs() []ResourceVerb {
	return []ResourceVerb{VerbCreate, VerbRead, VerbUpdate, VerbDelete, VerbDiff, VerbScale, VerbHealth, VerbTroubleshoot}
}

// ResourceType is a row of a driver's table of resources, which documents and
// refusals go by.
type ResourceType struct {
	// Type is the resource's name, such as "docker.network".
	Type string
	// Doc says in one sentence what it is.
	Doc string
	// Config describes ResourceSpec.Config.
	Config Schema
	// Verbs are what can be done with it.
	Verbs []ResourceVerb
	// Refused says why the other verbs can't be done; empty where there is nothing
	// to say.
	Refused string
	// Problems tells what is wrong with a spec by itself: its config, also by the
	// schema, its name and its values. It asks nobody, so that a file is checked as a
	// whole before anything is opened. Nil is that Config says it all. It isn't passed
	// over a wire: DiffResource says the same.
	Problems func(ResourceSpec) []Problem
}

// Has reports whether a verb can be done with the type.
func (t ResourceType) Has(v ResourceVerb) bool {
	for _, have := range t.Verbs {
		if have == v {
			return true
		}
	}
	return false
}

// Refusal says why a verb can't be done with the type; empty where it can.
func (t ResourceType) Refusal(v ResourceVerb) string {
	why := t.Refused
	switch {
	case t.Has(v):
		return ""
	case v == VerbScale:
		why = "it has no replicas"
	}
	if why == "" {
		return fmt.Sprintf("there is no %s of %s", v, t.Type)
	}
	return fmt.Sprintf("there is no %s of %s: %s", v, t.Type, why)
}

// ResourceSpec is a resource as it is wanted.
type ResourceSpec struct {
	// Name is unique among resources of its type; Type is one of the driver's.
	Name, Type string
	// Config is raw JSON, passed on unchanged; nil is empty.
	Config json.RawMessage
	// Size and Hints are for drivers that choose by them; a driver that doesn't
	// refuses them.
	Size  string
	Hints ResourceHints
	// DependsOn names resources that must be there first.
	DependsOn []string
}

// ResourceHints are wishes in the backend's own words.
type ResourceHints struct{ CPU, Memory, Storage string }

// ResourceRef says which resource is meant.
type ResourceRef struct {
	Name, Type string
	// ProviderID is the backend's own name of it; empty finds it by Name.
	ProviderID string
}

// ResourceOutput is a resource as it is.
type ResourceOutput struct {
	Name, Type string
	ProviderID string
	// Outputs are raw JSON, passed on unchanged; nil is none.
	Outputs json.RawMessage
	// Sensitive marks members of Outputs that nobody is to see.
	Sensitive map[string]bool
	// Status is the backend's word.
	Status string
}

// CreateResourceRequest makes a resource.
type CreateResourceRequest struct {
	// OpID names the change; it is new for each one, and the same when one is
	// sent again.
	OpID ID
	Spec ResourceSpec
}

// CreateResourceResult is what was made.
type CreateResourceResult struct{ Output ResourceOutput }

// ReadResourceRequest asks for a resource.
type ReadResourceRequest struct{ Ref ResourceRef }

// ReadResourceResult is what there is.
type ReadResourceResult struct {
	Output ResourceOutput
	// OpID is the latest change that the backend has on record for it; zero where
	// it has none.
	OpID ID
	// Owner and LedgerID are who made it; empty where it carries no mark of ours.
	Owner, LedgerID string
}

// UpdateResourceRequest changes a resource.
type UpdateResourceRequest struct {
	OpID ID
	Ref  ResourceRef
	Spec ResourceSpec
}

// UpdateResourceResult is the resource after the change.
type UpdateResourceResult struct{ Output ResourceOutput }

// DeleteResourceRequest removes a resource.
type DeleteResourceRequest struct {
	OpID ID
	Ref  ResourceRef
}

// DeleteResourceResult is empty.
type DeleteResourceResult struct{}

// DiffResourceRequest compares.
type DiffResourceRequest struct {
	Desired ResourceSpec
	Current ResourceOutput
}

// DiffResourceResult says what differs.
type DiffResourceResult struct {
	// NeedsUpdate: UpdateResource would change something. NeedsReplace: only
	// another in its place can be as wanted.
	NeedsUpdate, NeedsReplace bool
	Changes                   []FieldChange
}

// FieldChange is one member that differs.
type FieldChange struct {
	// Path is the member of the config, such as "labels.team".
	Path string
	// Old and New are raw JSON; nil is not there.
	Old, New json.RawMessage
	// ForceNew: this change alone needs another in its place.
	ForceNew bool
}

// ScaleResourceRequest sets a number of replicas.
type ScaleResourceRequest struct {
	OpID ID
	Ref  ResourceRef
	// Replicas is 0 or more, and fits into 32 bits.
	Replicas int
}

// ScaleResourceResult is the resource after the change.
type ScaleResourceResult struct{ Output ResourceOutput }

// HealthCheckResourceRequest asks for a resource's health.
type HealthCheckResourceRequest struct{ Ref ResourceRef }

// HealthCheckResourceResult is a resource's health.
type HealthCheckResourceResult struct {
	Healthy bool
	// Message is one line for people.
	Message string
}

// SensitiveKeysRequest asks for a type's sensitive members.
type SensitiveKeysRequest struct{ Type string }

// SensitiveKeysResult has the names of members, wherever they stand.
type SensitiveKeysResult struct{ Keys []string }

// TroubleshootResourceRequest asks why.
type TroubleshootResourceRequest struct {
	Ref ResourceRef
	// FailureMessage is the failure that is to be explained; it may be empty.
	FailureMessage string
}

// TroubleshootResourceResult is what was found.
type TroubleshootResourceResult struct{ Diagnostics []Diagnostic }

// Diagnostic is one finding.
type Diagnostic struct {
	// ID is the backend's own name of it, Phase where it happened.
	ID, Phase string
	Cause     string
	// At is when it happened; zero is unknown.
	At     time.Time
	Detail string
}
