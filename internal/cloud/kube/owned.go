package kube

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/sdk"
)

// NamePrefix begins the name of every object of ours.
const NamePrefix = sdk.LabelPrefix

const labelName = sdk.LabelPrefix + "name"

// ObjectName names what an attempt makes: windlass- and the attempt's 26 characters.
// A pod's name adds 6, within the 63 of a label.
func ObjectName(attempt sdk.ID) string { return NamePrefix + attempt.String() }

// AttemptOf reads the attempt out of an object's name.
func AttemptOf(name string) (sdk.ID, bool) {
	text, ok := strings.CutPrefix(name, NamePrefix)
	id, err := sdk.ParseID(text)
	return id, ok && err == nil && ObjectName(id) == name
}

// OwnLabels are the labels of an attempt's objects that are ours. What a label can't
// hold as it is stands in an annotation in full.
func OwnLabels(r sdk.PrepareJobRequest, owner, ledgerID string) (labels, annotations map[string]string) {
	labels = map[string]string{
		sdk.LabelRun: r.RunID.String(), sdk.LabelAttempt: r.AttemptID.String(), sdk.LabelNumber: strconv.Itoa(r.Attempt),
		sdk.LabelOwner: LabelValue(owner), sdk.LabelLedger: LabelValue(ledgerID), sdk.LabelExpires: strconv.FormatInt(r.Expires.Unix(), 10),
	}
	annotations = map[string]string{sdk.LabelOwner: owner, sdk.LabelLedger: ledgerID}
	if r.Spec.Name != "" {
		labels[labelName], annotations[labelName] = LabelValue(r.Spec.Name), r.Spec.Name
	}
	return labels, annotations
}

// Owned reads what OwnLabels left on an object of ours, ok false on another's. kind
// is the object's type in the result.
func Owned(kind string, m metav1.ObjectMeta) (o sdk.OwnedObject, ok bool) {
	run, err := sdk.ParseID(m.Labels[sdk.LabelRun])
	if err != nil {
		return sdk.OwnedObject{}, false
	}
	attempt, ok := AttemptOf(m.Name)
	if !ok || m.Labels[sdk.LabelAttempt] != attempt.String() {
		return sdk.OwnedObject{}, false
	}
	o = sdk.OwnedObject{Type: kind, ID: m.Name, Name: m.Name, RunID: run, AttemptID: attempt, CreatedAt: m.CreationTimestamp.UTC(),
		Owner:    cmp.Or(m.Annotations[sdk.LabelOwner], m.Labels[sdk.LabelOwner]),
		LedgerID: cmp.Or(m.Annotations[sdk.LabelLedger], m.Labels[sdk.LabelLedger])}
	if n, err := strconv.ParseInt(m.Labels[sdk.LabelExpires], 10, 64); err == nil {
		o.Expires = time.Unix(n, 0).UTC()
	}
	return o, o.Owner != ""
}

// RemovePart deletes what a launch made beside its job, if it is there and ours;
// removed is false where there was nothing to delete. spend makes each call.
func (x *Session) RemovePart(ctx context.Context, op string, at Place, spend func(ctx context.Context, op string, call func() error) error) (removed bool, err error) {
	var is metav1.PartialObjectMetadata
	err = spend(ctx, op, func() error { return x.Get(ctx, op, at.Metadata(), nil, &is) })
	id, _ := AttemptOf(at.Name)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return false, nil
	case err != nil:
		return false, err
	case is.Labels[sdk.LabelAttempt] != id.String():
		return false, nil // another's, of a name that looks like ours
	}
	err = spend(ctx, op, func() error { return x.Delete(ctx, op, at, string(is.UID)) })
	if sdk.CodeOf(err) == sdk.NotFound {
		return false, nil
	}
	return err == nil, err
}
