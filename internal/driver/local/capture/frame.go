// Package capture keeps the output of one job in a file that only grows: the
// bytes as the job wrote them, each piece with its stream, its time and a
// checksum.
//
// A frame is a header of 24 bytes and a body. The header, little-endian:
//
//	0  magic "WLF1"
//	4  kind: 1 output, 2 gap
//	5  stream: 1 stdout, 2 stderr
//	6  two zero bytes
//	8  length of the body
//	12 time, Unix nanoseconds
//	20 CRC-32C of bytes 0 to 19 and the body
//
// A gap's body is the number of lost bytes, the times of the first and the last
// of them, and the reason, in 8 bytes each.
package capture

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// HeaderSize is the size of a frame's header.
	HeaderSize = 24
	// MaxBody is the largest body of a frame that is written.
	MaxBody = 256 << 10

	magic   = "WLF1"
	gapSize = 32
)

type kind byte

const (
	kindOutput kind = 1
	kindGap    kind = 2
)

// Why is the reason of a gap.
type Why int64

// WhyDisk: the bytes could not be written. WhyCap: they were over the cap.
// WhyDamaged: they stand in the file and don't match their checksum; this one
// is found by readers and never written.
const (
	WhyDisk    Why = 1
	WhyCap     Why = 2
	WhyDamaged Why = 3
)

// Frame is one piece of output, or one gap in it.
type Frame struct {
	// Stream is stdout or stderr; a damaged place's is combined.
	Stream sdk.Stream
	Time   time.Time
	// Data is set for output, and valid until the next call of Next.
	Data []byte
	// Gap is set for a gap.
	Gap *Gap
}

// Gap is bytes that are missing.
type Gap struct {
	// Bytes is -1 when nobody knows.
	Bytes    int64
	From, To time.Time
	Why      Why
}

func streamByte(s sdk.Stream) byte {
	if s == sdk.StreamStderr {
		return 2
	}
	return 1
}

func streamOf(b byte) sdk.Stream {
	if b == 2 {
		return sdk.StreamStderr
	}
	return sdk.StreamStdout
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// seal fills in the header of a frame whose body stands behind it.
func seal(frame []byte, k kind, s sdk.Stream, t time.Time, table *crc32.Table) {
	copy(frame, magic)
	frame[4], frame[5], frame[6], frame[7] = byte(k), streamByte(s), 0, 0
	binary.LittleEndian.PutUint32(frame[8:], uint32(len(frame)-HeaderSize))
	binary.LittleEndian.PutUint64(frame[12:], uint64(t.UnixNano()))
	binary.LittleEndian.PutUint32(frame[20:], checksum(frame, table))
}

func checksum(frame []byte, table *crc32.Table) uint32 {
	return crc32.Update(crc32.Update(0, table, frame[:20]), table, frame[HeaderSize:])
}

func putGap(body []byte, g Gap) {
	binary.LittleEndian.PutUint64(body, uint64(g.Bytes))
	binary.LittleEndian.PutUint64(body[8:], uint64(g.From.UnixNano()))
	binary.LittleEndian.PutUint64(body[16:], uint64(g.To.UnixNano()))
	binary.LittleEndian.PutUint64(body[24:], uint64(g.Why))
}

func getGap(body []byte) *Gap {
	at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(body[i:])) }
	return &Gap{Bytes: at(0), From: time.Unix(0, at(8)), To: time.Unix(0, at(16)), Why: Why(at(24))}
}
