// Package datachannel is the client's side of Session Manager's data channel, which
// carries a command inside a container of ECS: a websocket with messages in binary.
//
// AWS publishes the protocol as the sources of its own client and agent:
// https://github.com/aws/session-manager-plugin/blob/mainline/src/message/clientmessage.go
// and https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/session/contracts/agentmessage.go.
package datachannel

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The types of messages.
const (
	inputStream  = "input_stream_data"
	outputStream = "output_stream_data"
	acknowledge  = "acknowledge"
	closed       = "channel_closed"
	pause        = "pause_publication"
	resume       = "start_publication"
)

// The types of what a stream's message holds.
const (
	holdsOutput            = 1
	holdsSize              = 3
	holdsHandshakeRequest  = 5
	holdsHandshakeResponse = 6
	holdsHandshakeComplete = 7
	holdsFlag              = 10
	holdsStderr            = 11
)

// terminate is the flag that ends a session.
const terminate = 2

// A message is a header of fixed places in big endian and what it holds. The
// header's length, its first field, leaves out its last, the length of the rest.
const (
	placeKind     = 4
	placeVersion  = 36
	placeCreated  = 40
	placeSequence = 48
	placeFlags    = 56
	placeID       = 64
	placeDigest   = 80
	placeHolds    = 112
	placeLength   = 116
	placeData     = 120
)

// message is one message.
type message struct {
	kind     string
	sequence int64
	id       [16]byte
	holds    uint32
	data     []byte
}

// marshal writes a message made at a time.
func (m message) marshal(now time.Time) []byte {
	b := make([]byte, placeData+len(m.data))
	be := binary.BigEndian
	be.PutUint32(b, placeLength)
	copy(b[placeKind:placeVersion], fmt.Sprintf("%-32s", m.kind))
	be.PutUint32(b[placeVersion:], 1)
	be.PutUint64(b[placeCreated:], uint64(now.UnixMilli()))
	be.PutUint64(b[placeSequence:], uint64(m.sequence))
	if m.kind == acknowledge {
		be.PutUint64(b[placeFlags:], 3) // the first and the last of its kind
	}
	// An ID's second half comes first.
	copy(b[placeID:], m.id[8:])
	copy(b[placeID+8:], m.id[:8])
	digest := sha256.Sum256(m.data)
	copy(b[placeDigest:], digest[:])
	be.PutUint32(b[placeHolds:], m.holds)
	be.PutUint32(b[placeLength:], uint32(len(m.data)))
	copy(b[placeData:], m.data)
	return b
}

// unmarshal reads a message. A header may be longer than the one that is known; a
// digest that doesn't fit is an error.
func unmarshal(b []byte) (message, error) {
	if len(b) < placeData {
		return message{}, fmt.Errorf("a message of %d bytes is too short", len(b))
	}
	be := binary.BigEndian
	header := int64(be.Uint32(b))
	if header < placeLength || header+4 > int64(len(b)) {
		return message{}, fmt.Errorf("a header of %d bytes in a message of %d", header, len(b))
	}
	m := message{kind: strings.TrimSpace(strings.Trim(string(b[placeKind:placeVersion]), "\x00")), sequence: int64(be.Uint64(b[placeSequence:])),
		holds: be.Uint32(b[placeHolds:])}
	copy(m.id[8:], b[placeID:])
	copy(m.id[:8], b[placeID+8:])
	m.data = b[header+4:]
	n := be.Uint32(b[header:])
	if int64(n) > int64(len(m.data)) {
		return message{}, fmt.Errorf("a message says that it holds %d bytes, and has %d", n, len(m.data))
	}
	m.data = m.data[:n]
	if digest := sha256.Sum256(m.data); n > 0 && [sha256.Size]byte(b[placeDigest:placeHolds]) != digest {
		return message{}, errors.New("a message isn't what its digest says")
	}
	return m, nil
}

// newID makes a random ID.
func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// text is an ID as text.
func text(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
