package podlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/windlass-run/windlass/sdk"
)

// kept reads the whole output where it is kept, from the byte on that was reached.
func (t *tail) kept(ctx context.Context) (done bool, err error) {
	body, err := t.r.Kept(ctx)
	if err != nil {
		return false, err
	}
	defer body.Close() //nolint:errcheck // it was only read
	if _, err := io.CopyN(io.Discard, body, t.pos.bytes); err != nil {
		return false, t.absent(fmt.Errorf("what is kept of the output ends before the place that was reached: %w", err))
	}
	t.pos.kept = true
	in := bufio.NewReaderSize(body, maxPiece)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			t.pos.bytes += int64(len(line))
			c := sdk.LogChunk{Stream: sdk.StreamCombined, LineEnd: sdk.LineEndKept, Data: bytes.Clone(line), Launch: t.pos.launch}
			if n := len(line) - 1; line[n] == '\n' {
				c.Data, c.LineEnd = c.Data[:n], sdk.LineEndStripped
			}
			if !t.yield(sdk.LogItem{Entry: &c, Cursor: t.pos.cursor(t.r.Kind)}) {
				return false, nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			t.end()
			return true, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return false, t.absent(fmt.Errorf("read what is kept of the output: %w", err))
		}
	}
}
