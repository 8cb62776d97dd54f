//go:build linux || darwin

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/sdk"
)

// input is a job's standard input on its way there. A regular file goes to the
// job itself. Anything else that is attached is copied by this process into a
// pipe, so that the job sees the end of input when this process is gone. What
// is spooled depends on nobody.
type input struct {
	file   *os.File // for the supervisor; nil is no input
	pipe   *os.File // our end, if we copy
	from   io.Reader
	shared bool // file belongs to the caller
}

func (s *submission) openStdin(ctx context.Context) (*input, error) {
	from := s.r.Stdin
	if s.r.Launch.Stdin == sdk.StdinNone || from == nil {
		return &input{}, nil
	}
	if f, ok := from.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			return &input{file: f, shared: true}, nil
		}
	}
	if s.r.Launch.Stdin == sdk.StdinSpooled {
		f, err := s.spool(ctx, from)
		return &input{file: f}, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe for stdin: %w", err)
	}
	return &input{file: r, pipe: w, from: from}, nil
}

// spool copies the input into the attempt's folder, which goes with it.
func (s *submission) spool(ctx context.Context, from io.Reader) (*os.File, error) {
	f, err := os.OpenFile(s.folder.Path(attempt.StdinFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, sdk.Errorf(sdk.FailedPrecondition, "spool stdin", "%w", err)
	}
	_, err = io.Copy(f, readerFunc(func(b []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return from.Read(b)
	}))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, sdk.Errorf(sdk.FailedPrecondition, "spool stdin", "%w", err)
	}
	return f, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// close ends what begin has not taken over.
func (in *input) close() {
	if in.file != nil && !in.shared {
		_ = in.file.Close()
	}
	if in.pipe != nil {
		_ = in.pipe.Close()
	}
}

// begin copies until the input or the job ends, or the provider is closed.
func (in *input) begin(p *provider) {
	if in.pipe == nil {
		return
	}
	w, from := in.pipe, in.from
	ok := p.background(func(done <-chan struct{}) {
		copied := make(chan struct{})
		go func() {
			defer close(copied)
			_, err := io.Copy(onlyWriter{w}, from)
			_ = w.Close()
			if err != nil && !errors.Is(err, os.ErrClosed) && !isBrokenPipe(err) && !errors.Is(err, os.ErrDeadlineExceeded) {
				p.log.Warn("the job's input ended early", "err", err)
			}
		}()
		select {
		case <-copied:
		case <-done:
			_ = w.Close()
			// A reader that can be told lets go of the input at once; another
			// one holds its goroutine until its next byte.
			if d, ok := from.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Unix(1, 0)) == nil {
				<-copied
				_ = d.SetReadDeadline(time.Time{})
			}
		}
	})
	if ok {
		in.pipe = nil
	}
}

// onlyWriter hides what io.Copy would use behind the pipe's back.
type onlyWriter struct{ io.Writer }
