package client

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// changing are the methods that may have done something when no answer came.
func changing() map[protoreflect.Name]bool {
	out := map[protoreflect.Name]bool{}
	for _, m := range []protoreflect.Name{
		"Open", "Close", "Callbacks",
		"RunJob", "CancelJob", "CleanupJob", "RemoveOwned", "RenewExpiry",
		"CreateResource", "UpdateResource", "DeleteResource", "ScaleResource",
		"StartWorkload", "StopWorkload", "ScaleWorkload", "RestartWorkload", "ApplyConfig", "ExecWorkload",
	} {
		out[m] = true
	}
	return out
}

// TestEveryMethodIsJudged: a method that is new to the wire is named here or in
// changesNothing, so that no reading one counts as one that changes something by
// forgetting it.
func TestEveryMethodIsJudged(t *testing.T) {
	left, n := changing(), 0
	protoregistry.GlobalFiles.RangeFilesByPackage("windlass.provider.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j).Name()
				n++
				if full := "/" + string(s.FullName()) + "/" + string(m); changesNothing(full) == left[m] {
					t.Errorf("%s: it changes nothing: %t, it is listed as changing: %t", full, changesNothing(full), left[m])
				}
				delete(left, m)
			}
		}
		return true
	})
	if n < 30 || len(left) > 0 {
		t.Errorf("%d methods were judged; there are none called %v", n, left)
	}
}
