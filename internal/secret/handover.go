package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windlass-run/windlass/sdk"
)

// Handover is the values of one run's secrets by reference. Printing and
// encoding it shows nothing of them.
type Handover struct {
	values map[sdk.SecretRef]sdk.SecretValue
}

// Snapshot resolves the references of a run whose scheme is resolved here, so
// that its later attempts don't need the submitter's machine. References of
// other schemes are left to the provider. All failures come back as one error.
func (r *Resolver) Snapshot(ctx context.Context, refs map[string]sdk.SecretRef) (Handover, error) {
	h := Handover{values: map[sdk.SecretRef]sdk.SecretValue{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		ref := refs[name]
		p, err := sdk.ParseSecretRef(string(ref))
		if err == nil {
			if _, ok := r.schemes[p.Scheme]; !ok {
				continue
			}
			if _, ok := h.values[ref]; ok {
				continue
			}
			var v sdk.SecretValue
			if v, err = r.ResolveSecret(ctx, ref); err == nil {
				h.values[ref] = v
				continue
			}
		}
		errs = append(errs, &sdk.Error{Code: sdk.CodeOf(err), Op: "secret " + name, ID: idOf(err), Err: err})
	}
	if len(errs) > 0 {
		return Handover{}, errors.Join(errs...)
	}
	return h, nil
}

// Refs returns the references that have a value, sorted.
func (h Handover) Refs() []sdk.SecretRef { return slices.Sorted(maps.Keys(h.values)) }

// Values returns the values, for a redactor.
func (h Handover) Values() []sdk.SecretValue {
	out := make([]sdk.SecretValue, 0, len(h.values))
	for _, ref := range h.Refs() {
		out = append(out, h.values[ref])
	}
	return out
}

// Empty reports whether there is nothing to hand over.
func (h Handover) Empty() bool { return len(h.values) == 0 }

// Erase overwrites the values. It is for the holder, once a run is over and no
// attempt of it will follow; values that others took are overwritten too.
func (h Handover) Erase() {
	for _, v := range h.values {
		clear(v.Reveal())
	}
	clear(h.values)
}

// Format prints [redacted], whatever the verb.
func (h Handover) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, sdk.Redacted) }

// MarshalJSON gives [redacted]; Encode gives the values.
func (h Handover) MarshalJSON() ([]byte, error) { return json.Marshal(sdk.Redacted) }

// handoverVersion is the version of the form that Encode writes.
const handoverVersion = 1

type handover struct {
	V      int                      `json:"v"`
	Values map[sdk.SecretRef][]byte `json:"values,omitzero"`
}

// Encode returns the values as JSON, to be sent over the background process's
// own socket of mode 0600 and nowhere else: never to a file, a log or a ledger.
func (h Handover) Encode() ([]byte, error) {
	out := handover{V: handoverVersion, Values: make(map[sdk.SecretRef][]byte, len(h.values))}
	for k, v := range h.values {
		out.Values[k] = v.Reveal()
	}
	return json.Marshal(out)
}

// DecodeHandover reads what Encode wrote. No error holds a value.
func DecodeHandover(data []byte) (Handover, error) {
	var in handover
	if json.Unmarshal(data, &in) != nil || in.V == 0 {
		return Handover{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "read secrets", ID: ErrBadHandover, Err: errors.New("not in the form that is handed over")}
	}
	if in.V > handoverVersion {
		return Handover{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: "read secrets", ID: ErrBadHandover, Remedy: "use a newer windlass",
			Err: fmt.Errorf("handed over in version %d, this program reads up to %d", in.V, handoverVersion)}
	}
	h := Handover{values: make(map[sdk.SecretRef]sdk.SecretValue, len(in.Values))}
	for k, v := range in.Values {
		h.values[k] = sdk.NewSecretValue(v)
	}
	return h, nil
}

type contextKey struct{}

// With returns a context in which a run's own values come before any scheme:
// two runs may have different values under one reference.
func With(ctx context.Context, h Handover) context.Context {
	return context.WithValue(ctx, contextKey{}, h)
}

func from(ctx context.Context) (Handover, bool) {
	h, ok := ctx.Value(contextKey{}).(Handover)
	return h, ok
}
