package sandbox

import (
	"fmt"
	"sync"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/sdk"
)

// relay passes a run's output and what is said of it to an Output, one call at a
// time.
type relay struct {
	mu      sync.Mutex
	to      Output
	render  joblog.Renderer
	buf     []byte
	attempt int
	gone    bool
	// partial: something was missing.
	partial bool
}

func (r *relay) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to.Note(text)
}

// broken notes that the output couldn't be read to its end.
func (r *relay) broken(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = true
	r.to.Note(fmt.Sprintf("its output can't be shown: %v", err))
}

func (r *relay) item(it control.FollowItem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if it.Attempt != r.attempt {
		r.attempt, r.render = it.Attempt, joblog.Renderer{}
	}
	switch {
	case it.Gap != nil:
		r.partial = true
		r.to.Note("output is missing here: " + it.Gap.Why)
	case it.Entry != nil && it.Entry.Stream == sdk.StreamSystem:
		r.write(sdk.StreamSystem, it.Entry.Data)
	case it.Entry != nil:
		r.buf = r.render.Append(r.buf[:0], it.Entry)
		r.write(it.Entry.Stream, r.buf)
	}
}

// write drops what nobody reads any more: the run goes on, and so does the
// reading, up to the verdict.
func (r *relay) write(stream sdk.Stream, data []byte) {
	if !r.gone && r.to.Write(stream, data) != nil {
		r.gone = true
	}
}
