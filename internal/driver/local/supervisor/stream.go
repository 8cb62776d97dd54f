//go:build linux || darwin

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/capture"
	"github.com/windlass-run/windlass/sdk"
)

// stream copies one of the job's outputs into the file, in a goroutine of its
// own.
type stream struct {
	name   sdk.Stream
	writer *capture.Writer
	r, w   *os.File
	done   chan struct{}
}

// openStream makes the pipe. The job may reopen its output by its name in
// /proc, so the pipe is owner's.
func openStream(name sdk.Stream, w *capture.Writer, owner int) (*stream, error) {
	r, pw, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	s := &stream{name: name, writer: w, r: r, w: pw, done: make(chan struct{})}
	widen(pw)
	if owner > 0 {
		if err := pw.Chown(owner, -1); err != nil {
			s.close()
			return nil, fmt.Errorf("hand pipe over: %w", err)
		}
	}
	return s, nil
}

func (s *stream) close() { _, _ = s.r.Close(), s.w.Close() }

// begin closes our own end of the job's side and starts to copy.
func (s *stream) begin() {
	_ = s.w.Close()
	go s.copy()
}

func (s *stream) copy() {
	defer close(s.done)
	frame := make([]byte, capture.HeaderSize+capture.MaxBody)
	for {
		n, err := s.r.Read(frame[capture.HeaderSize:])
		if n > 0 {
			s.writer.Write(s.name, time.Now(), frame[:capture.HeaderSize+n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.drain(frame)
			return
		}
		if err != nil {
			return // the end of the pipe
		}
	}
}

// drain takes what is in the pipe and waits for nothing.
func (s *stream) drain(frame []byte) {
	raw, err := s.r.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for {
			n, err := syscall.Read(int(fd), frame[capture.HeaderSize:])
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if n <= 0 || err != nil {
				return
			}
			s.writer.Write(s.name, time.Now(), frame[:capture.HeaderSize+n])
		}
	})
}

// holdOn is how long a pipe may stay open when all of the job is gone: it takes
// the kernel that long at most to close the files of the dead.
const holdOn = 100 * time.Millisecond

// finish returns when all that the job wrote is in the file. Nothing of the job
// lives any more; a stranger that was handed the pipe doesn't hold up the end.
func (s *stream) finish() {
	t := time.NewTimer(holdOn)
	defer t.Stop()
	select {
	case <-s.done:
	case <-t.C:
		_ = s.r.SetReadDeadline(time.Now())
		<-s.done
	}
	_ = s.r.Close()
}
