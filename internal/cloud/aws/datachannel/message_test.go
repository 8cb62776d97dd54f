package datachannel

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// TestMessageForm fixes the places of a message's parts, as AWS's client has them.
func TestMessageForm(t *testing.T) {
	m := message{kind: inputStream, sequence: 7, id: [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, holds: holdsOutput, data: []byte("ls\r")}
	b := m.marshal(time.UnixMilli(1_700_000_000_000))
	be := binary.BigEndian
	if len(b) != 123 || be.Uint32(b) != 116 || string(b[4:36]) != "input_stream_data               " || be.Uint32(b[36:]) != 1 || be.Uint64(b[40:]) != 1_700_000_000_000 ||
		be.Uint64(b[48:]) != 7 || !bytes.Equal(b[64:80], []byte{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}) || be.Uint32(b[112:]) != 1 || be.Uint32(b[116:]) != 3 || string(b[120:]) != "ls\r" {
		t.Errorf("message %x", b)
	}
	if got, err := unmarshal(b); err != nil || got.kind != m.kind || got.sequence != 7 || got.id != m.id || got.holds != m.holds || string(got.data) != "ls\r" {
		t.Errorf("read as %+v, %v", got, err)
	}
	b[121]++
	if _, err := unmarshal(b); err == nil {
		t.Error("a payload that was changed is taken")
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add(message{kind: outputStream, id: newID(), holds: holdsOutput, data: []byte("x")}.marshal(time.Now()))
	f.Add([]byte("short"))
	f.Add(bytes.Repeat([]byte{0xff}, 200))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := unmarshal(raw)
		if err != nil || len(m.kind) > 32 {
			return
		}
		again, err := unmarshal(m.marshal(time.Now()))
		if err != nil || again.sequence != m.sequence || again.holds != m.holds || !bytes.Equal(again.data, m.data) {
			t.Errorf("%+v, and again %+v, %v", m, again, err)
		}
	})
}
