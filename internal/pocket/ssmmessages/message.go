// Package ssmmessages is the part of the pocket cloud that carries sessions: the
// data channel of Session Manager between a client and the agent in a container,
// with both the service's and the agent's side.
//
// AWS publishes the protocol as the sources of its agent and of its client alone:
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/session/contracts/agentmessage.go
// and https://github.com/aws/session-manager-plugin/blob/mainline/src/message/clientmessage.go.
package ssmmessages

import (
	"bytes"
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
	typeInput  = "input_stream_data"
	typeOutput = "output_stream_data"
	typeAck    = "acknowledge"
	typeClosed = "channel_closed"
)

// The types of payloads of a stream.
const (
	payloadOutput            = 1
	payloadSize              = 3
	payloadHandshakeRequest  = 5
	payloadHandshakeResponse = 6
	payloadHandshakeComplete = 7
	payloadFlag              = 10
)

// flagTerminate asks for the session's end.
const flagTerminate = 2

// Where the parts of a message stand. A header's length doesn't count the last
// field, the payload's length.
const (
	atType     = 4
	atVersion  = atType + 32
	atCreated  = atVersion + 4
	atSequence = atCreated + 8
	atFlags    = atSequence + 8
	atID       = atFlags + 8
	atDigest   = atID + 16
	atPayload  = atDigest + sha256.Size
	atLength   = atPayload + 4
	headerSize = atLength + 4
)

// message is one message of the channel.
type message struct {
	kind     string
	sequence int64
	flags    uint64
	id       [16]byte
	payload  uint32
	data     []byte
}

// encode writes a message as of a time.
func (m message) encode(now time.Time) []byte {
	out := make([]byte, headerSize, headerSize+len(m.data))
	binary.BigEndian.PutUint32(out, atLength)
	copy(out[atType:atVersion], m.kind+strings.Repeat(" ", 32-len(m.kind)))
	binary.BigEndian.PutUint32(out[atVersion:], 1)
	binary.BigEndian.PutUint64(out[atCreated:], uint64(now.UnixMilli()))
	binary.BigEndian.PutUint64(out[atSequence:], uint64(m.sequence))
	binary.BigEndian.PutUint64(out[atFlags:], m.flags)
	// The ID's halves are swapped: the lower comes first.
	copy(out[atID:], m.id[8:])
	copy(out[atID+8:], m.id[:8])
	sum := sha256.Sum256(m.data)
	copy(out[atDigest:], sum[:])
	binary.BigEndian.PutUint32(out[atPayload:], m.payload)
	binary.BigEndian.PutUint32(out[atLength:], uint32(len(m.data)))
	return append(out, m.data...)
}

// decode reads a message, strictly.
func decode(raw []byte) (message, error) {
	if len(raw) < headerSize {
		return message{}, fmt.Errorf("a message of %d bytes, of at least %d", len(raw), headerSize)
	}
	if n := binary.BigEndian.Uint32(raw); n != atLength {
		return message{}, fmt.Errorf("a header of %d bytes, not %d", n, atLength)
	}
	m := message{kind: strings.TrimRight(string(raw[atType:atVersion]), " \x00"), sequence: int64(binary.BigEndian.Uint64(raw[atSequence:])),
		flags: binary.BigEndian.Uint64(raw[atFlags:]), payload: binary.BigEndian.Uint32(raw[atPayload:]), data: raw[headerSize:]}
	copy(m.id[8:], raw[atID:atID+8])
	copy(m.id[:8], raw[atID+8:atDigest])
	switch {
	case binary.BigEndian.Uint32(raw[atVersion:]) != 1:
		return message{}, errors.New("a message of another version than 1")
	case binary.BigEndian.Uint64(raw[atCreated:]) == 0:
		return message{}, errors.New("a message without its time")
	case uint64(binary.BigEndian.Uint32(raw[atLength:])) != uint64(len(m.data)):
		return message{}, fmt.Errorf("a payload of %d bytes that says that it has %d", len(m.data), binary.BigEndian.Uint32(raw[atLength:]))
	}
	if sum := sha256.Sum256(m.data); len(m.data) > 0 && !bytes.Equal(sum[:], raw[atDigest:atPayload]) {
		return message{}, errors.New("a payload that isn't what its digest says")
	}
	return m, nil
}

// newID returns a random UUID.
func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// text is an ID in its usual form.
func text(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
