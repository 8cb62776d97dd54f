//go:build unix

package run

import (
	"bytes"
	"testing"
	"time"
)

// slowly takes its first write long after the process has ended.
type slowly struct {
	bytes.Buffer
	once bool
}

func (s *slowly) Write(b []byte) (int, error) {
	if !s.once {
		s.once = true
		time.Sleep(outputGrace + outputGrace/2) //sleep: a reader slower than the grace
	}
	return s.Buffer.Write(b)
}

// A process that ends leaves its last output in the pipe; however slowly it is
// taken, all of it comes.
func TestOutputTakenSlowly(t *testing.T) {
	e := NewProcesses(nil)
	t.Cleanup(func() { closes(t, e) })
	out, other := &slowly{}, &buffer{}
	c, err := e.Start(t.Context(), Spec{Command: []string{"sh", "-c", `head -c 60000 /dev/zero; head -c 30000 /dev/zero`}, Stdout: out, Stderr: other})
	if err != nil {
		t.Fatal(err)
	}
	started{Container: c}.ends(t)
	if out.Len() != 90000 {
		t.Errorf("%d bytes of 90000", out.Len())
	}
}

// A descendant that has left the group and is silent holds nothing up.
func TestOutputHeldOpen(t *testing.T) {
	e := NewProcesses(nil)
	t.Cleanup(func() { closes(t, e) })
	out, other := &buffer{}, &buffer{}
	c, err := e.Start(t.Context(), Spec{Command: []string{"sh", "-c", `echo here; setsid sleep 5 & exit 3`}, Stdout: out, Stderr: other})
	if err != nil {
		t.Fatal(err)
	}
	if code := (started{Container: c}).ends(t).Code; code != 3 || out.String() != "here\n" {
		t.Errorf("code %d, output %q", code, out)
	}
}
