package joblog

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// A frame is, in little endian:
//
//	 0  CRC-32C of all that follows
//	 4  length of the payload
//	 8  epoch of the holder that wrote it
//	16  time, seconds since 1970
//	24  time, nanoseconds; noTime says that it is unknown
//	28  launch
//	32  kind
//	33  stream
//	34  flags
//	35  zero
//	36  payload
const (
	frameHead = 36
	// maxPayload bounds what a reader believes of a length; writers stay far
	// below.
	maxPayload = 1 << 20
	noTime     = 1<<32 - 1
)

const (
	// kindEntry: the payload is the data.
	kindEntry = 1
	// kindGap: the backend lost something; the payload is a gapBody.
	kindGap = 2
	// kindLoss: we lost something, and know what; the payload is a lossBody.
	kindLoss = 3
)

const (
	// flagStripped: a newline was taken off the end.
	flagStripped = 1
	// flagContinued: the next frame of the stream belongs to the same chunk.
	flagContinued = 2
	allFlags      = flagStripped | flagContinued
)

// streams gives each stream its number in frames, places and masks.
var streams = [...]sdk.Stream{sdk.StreamStdout, sdk.StreamStderr, sdk.StreamCombined, sdk.StreamSystem}

func streamNumber(s sdk.Stream) (uint8, bool) {
	for i, x := range streams {
		if x == s {
			return uint8(i), true
		}
	}
	return 0, false
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stamp is a time as frames carry it, comparable and without a location.
type stamp struct {
	Sec  int64  `json:"sec"`
	Nsec uint32 `json:"nsec"`
}

var unknownTime = stamp{Nsec: noTime}

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return unknownTime
	}
	return stamp{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())}
}

func (s stamp) known() bool { return s.Nsec != noTime }

func (s stamp) time() time.Time {
	if !s.known() {
		return time.Time{}
	}
	return time.Unix(s.Sec, int64(s.Nsec)).UTC()
}

// before orders stamps in time; one that is unknown comes before all others.
func (s stamp) before(t stamp) bool {
	switch {
	case !s.known() || !t.known():
		return !s.known() && t.known()
	case s.Sec != t.Sec:
		return s.Sec < t.Sec
	}
	return s.Nsec < t.Nsec
}

// frame is a decoded frame; data aliases the buffer that it came from.
type frame struct {
	kind, stream, flags uint8
	launch              uint32
	at                  stamp
	data                []byte
}

func (f *frame) stripped() bool { return f.flags&flagStripped != 0 }

// units is how far an entry advances its stream.
func (f *frame) units() int64 {
	if f.stripped() {
		return int64(len(f.data)) + 1
	}
	return int64(len(f.data))
}

var noHead [frameHead]byte

func appendFrame(dst []byte, epoch uint64, f *frame) []byte {
	n := len(dst)
	dst = append(dst, noHead[:]...)
	dst = append(dst, f.data...)
	b := dst[n:]
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(len(f.data)))
	le.PutUint64(b[8:], epoch)
	le.PutUint64(b[16:], uint64(f.at.Sec))
	le.PutUint32(b[24:], f.at.Nsec)
	le.PutUint32(b[28:], f.launch)
	b[32], b[33], b[34] = f.kind, f.stream, f.flags
	le.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return dst
}

type frameStatus int

const (
	frameOK frameStatus = iota
	// frameShort: b ends inside the frame, which needs the returned number
	// of bytes.
	frameShort
	// frameBad: no frame of this epoch starts here.
	frameBad
)

// parseFrame reads the frame at the start of b into f and returns its size.
func parseFrame(b []byte, epoch uint64, f *frame) (int, frameStatus) {
	if len(b) < frameHead {
		return frameHead, frameShort
	}
	le := binary.LittleEndian
	payload := le.Uint32(b[4:])
	if payload > maxPayload || le.Uint64(b[8:]) != epoch {
		return 0, frameBad
	}
	n := frameHead + int(payload)
	if len(b) < n {
		return n, frameShort
	}
	if le.Uint32(b) != crc32.Checksum(b[4:n], castagnoli) {
		return 0, frameBad
	}
	f.at = stamp{Sec: int64(le.Uint64(b[16:])), Nsec: le.Uint32(b[24:])}
	f.launch = le.Uint32(b[28:])
	f.kind, f.stream, f.flags = b[32], b[33], b[34]
	f.data = b[frameHead:n:n]
	if f.kind < kindEntry || f.kind > kindLoss || int(f.stream) >= len(streams) || f.flags&^allFlags != 0 || b[35] != 0 {
		return 0, frameBad
	}
	if f.at.known() && f.at.Nsec >= 1e9 {
		return 0, frameBad
	}
	return n, frameOK
}

// frameSize returns the size of the frame at the start of b, which we wrote.
func frameSize(b []byte) int {
	return frameHead + int(binary.LittleEndian.Uint32(b[4:]))
}

type gapBody struct {
	From  stamp  `json:"from"`
	To    stamp  `json:"to"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

// lossBody says where the log goes on after bytes that we couldn't store.
type lossBody struct {
	From stamp  `json:"from"`
	To   stamp  `json:"to"`
	Why  string `json:"why"`
	// End holds the marks of the streams that lost something.
	End  []mark `json:"end"`
	Gaps int64  `json:"gaps"`
	// Missed is what the gaps that were lost told of, in bytes; -1 is unknown.
	Missed int64 `json:"missed,omitempty"`
}

// maxWhy bounds the sentence of a gap.
const maxWhy = 1 << 10

func gapFrame(g *sdk.LogGap, bytes int64) (frame, error) {
	why := strings.ToValidUTF8(g.Why[:min(len(g.Why), maxWhy)], "\uFFFD")
	data, err := json.Marshal(gapBody{From: stampOf(g.From), To: stampOf(g.To), Bytes: max(bytes, -1), Why: why})
	return frame{kind: kindGap, at: stampOf(g.To), data: data}, err
}

func (f *frame) gap() (gapBody, error) {
	var b gapBody
	if err := json.Unmarshal(f.data, &b); err != nil {
		return b, fmt.Errorf("read gap: %w", err)
	}
	return b, nil
}

func (f *frame) loss() (lossBody, error) {
	var b lossBody
	if err := json.Unmarshal(f.data, &b); err != nil {
		return b, fmt.Errorf("read loss: %w", err)
	}
	for _, m := range b.End {
		if !m.valid() {
			return b, fmt.Errorf("read loss: a mark is out of range")
		}
	}
	return b, nil
}

func lossFrame(b *lossBody, at stamp) (frame, error) {
	data, err := json.Marshal(b)
	return frame{kind: kindLoss, at: at, data: data}, err
}
