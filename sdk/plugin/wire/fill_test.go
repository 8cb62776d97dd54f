package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// filler makes values with everything set, each text and number another.
type filler struct{ n int }

// notCarried are the members that stay on their own side.
func notCarried() map[string]string {
	return map[string]string{
		"Driver.Open":            "it is the call itself",
		"ResourceType.Problems":  "it is a function: DiffResource says the same",
		"OpenRequest.Secrets":    "asked for by callbacks",
		"OpenRequest.Clock":      "the plugin's own",
		"OpenRequest.IDs":        "the plugin's own",
		"OpenRequest.Log":        "the plugin's own",
		"OpenRequest.Executable": "the plugin's own",
		"RunJobRequest.Stdin":    "travels in the stream",
		"RunJobRequest.Progress": "travels in the stream",

		"ExecWorkloadRequest.Stdin":   "travels in the stream",
		"ExecWorkloadRequest.Stdout":  "travels in the stream",
		"ExecWorkloadRequest.Stderr":  "travels in the stream",
		"ExecWorkloadRequest.Resize":  "travels in the stream",
		"ExecWorkloadRequest.Signals": "travels in the stream",
	}
}

func filled[T any](f *filler) T {
	var v T
	f.fill(reflect.ValueOf(&v).Elem(), 0)
	return v
}

// special gives the types whose values can't be any.
func (f *filler) special(t reflect.Type) any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return time.Unix(int64(1_700_000_000+f.n), int64(f.n)).UTC()
	case reflect.TypeFor[time.Duration]():
		return time.Duration(f.n)*time.Second + 7
	case reflect.TypeFor[json.RawMessage]():
		return json.RawMessage(fmt.Sprintf(`{"n":%d}`, f.n))
	case reflect.TypeFor[error]():
		return &sdk.Error{Code: sdk.NotFound, Op: "look", Err: errors.New("gone")}
	case reflect.TypeFor[sdk.Code]():
		return sdk.FailedPrecondition
	case reflect.TypeFor[sdk.JobState]():
		return sdk.StateFailed
	case reflect.TypeFor[sdk.Reason]():
		return sdk.ReasonNonzeroExit
	case reflect.TypeFor[sdk.FindOutcome]():
		return sdk.FindFound
	case reflect.TypeFor[sdk.SubmitBy]():
		return sdk.SubmitByToken
	case reflect.TypeFor[sdk.ArgvGuarantee]():
		return sdk.ArgvExact
	case reflect.TypeFor[sdk.ExitCodeGuarantee]():
		return sdk.ExitCodeProcess
	case reflect.TypeFor[sdk.LogFidelity]():
		return sdk.LogBytes
	case reflect.TypeFor[sdk.SecretDelivery]():
		return sdk.SecretSealed
	case reflect.TypeFor[sdk.StdinMode]():
		return sdk.StdinSpooled
	case reflect.TypeFor[sdk.Profile]():
		return sdk.ProfileStrict
	case reflect.TypeFor[sdk.MountType]():
		return sdk.MountTmpfs
	case reflect.TypeFor[sdk.FieldType]():
		return sdk.TypeList
	case reflect.TypeFor[sdk.Stream]():
		return sdk.StreamStderr
	case reflect.TypeFor[sdk.LineEnd]():
		return sdk.LineEndStripped
	case reflect.TypeFor[sdk.OpFoundBy]():
		return sdk.OpInHistory
	case reflect.TypeFor[sdk.RestartGuarantee]():
		return sdk.RestartRolling
	case reflect.TypeFor[sdk.StopGuarantee]():
		return sdk.StopZero
	case reflect.TypeFor[sdk.OpState]():
		return sdk.OpAccepted
	case reflect.TypeFor[sdk.RolloutState]():
		return sdk.RolloutComplete
	case reflect.TypeFor[sdk.InstanceState]():
		return sdk.InstanceRunning
	case reflect.TypeFor[sdk.Verdict]():
		return sdk.VerdictComplete
	}
	return nil
}

func (f *filler) fill(v reflect.Value, depth int) {
	f.n++
	if s := f.special(v.Type()); s != nil {
		v.Set(reflect.ValueOf(s))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d é", f.n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Uint8:
		v.SetUint(uint64(f.n%255 + 1))
	case reflect.Float64:
		v.SetFloat(float64(f.n) + 0.5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), depth)
		}
	case reflect.Slice:
		if depth > 8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(k, depth+1)
			f.fill(e, depth+1)
			v.SetMapIndex(k, e)
		}
	case reflect.Pointer:
		if depth > 8 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth+1)
	case reflect.Struct:
		f.fillStruct(v, depth)
	default:
		panic("a filler doesn't know " + v.Type().String())
	}
}

func (f *filler) fillStruct(v reflect.Value, depth int) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if _, ok := notCarried()[v.Type().Name()+"."+field.Name]; ok {
			continue
		}
		f.fill(v.Field(i), depth+1)
		if field.Name == "V" {
			v.Field(i).SetInt(1)
		}
	}
}
