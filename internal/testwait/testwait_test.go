package testwait

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a test that only records how it was failed.
type recorder struct {
	testing.TB
	fatal string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure runs f with a recorder and returns the words of its failure.
func failure(f func(t testing.TB)) string {
	var r recorder
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(&r)
	}()
	<-done
	return r.fatal
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		Until(t, time.Minute, "third second", func() bool { return time.Since(start) >= 3*time.Second })
		if late := time.Since(start) - 3*time.Second; late > 100*time.Millisecond {
			t.Errorf("returned %s late", late)
		}
		got := failure(func(t testing.TB) {
			Until(t, 5*time.Second, "pony", func() bool { return false })
		})
		if want := "after 5s still no pony"; got != want {
			t.Errorf("failure = %q, want %q", got, want)
		}
	})
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := make(chan int, 1)
		c <- 7
		if got := Receive(t, time.Second, "number", c); got != 7 {
			t.Errorf("Receive = %d, want 7", got)
		}
		if got := failure(func(t testing.TB) { Receive(t, time.Second, "number", c) }); got != "after 1s still no number" {
			t.Errorf("failure on an empty channel = %q", got)
		}
		close(c)
		if got := failure(func(t testing.TB) { Receive(t, time.Second, "number", c) }); !strings.Contains(got, "closed") {
			t.Errorf("failure on a closed channel = %q", got)
		}
	})
}
