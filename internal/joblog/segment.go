package joblog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"
)

// term tells writers apart: the holder's epoch, and which of that epoch's
// writers it is.
type term struct {
	Epoch uint64 `json:"epoch"`
	Gen   uint32 `json:"gen"`
}

func (t term) compare(u term) int {
	switch {
	case t.Epoch != u.Epoch && t.Epoch < u.Epoch, t.Epoch == u.Epoch && t.Gen < u.Gen:
		return -1
	case t == u:
		return 0
	}
	return 1
}

// segID names a segment: its number in the log and the term that wrote it.
type segID struct {
	Number uint64 `json:"number"`
	term
}

const (
	segSuffix   = ".seg"
	claimSuffix = ".mark"
	magic       = "wljlog1\n"
	// headPrefix is magic, CRC-32C and length, which the JSON follows.
	headPrefix = len(magic) + 8
	maxHeader  = 4 << 20
)

func (id segID) name() string {
	return fmt.Sprintf("%010d-%016x-%08x%s", id.Number, id.Epoch, id.Gen, segSuffix)
}

func (t term) name() string { return fmt.Sprintf("%016x-%08x%s", t.Epoch, t.Gen, claimSuffix) }

func parseTerm(s string) (term, bool) {
	epoch, gen, ok := strings.Cut(s, "-")
	if !ok || len(epoch) != 16 || len(gen) != 8 {
		return term{}, false
	}
	e, err := strconv.ParseUint(epoch, 16, 64)
	if err != nil {
		return term{}, false
	}
	g, err := strconv.ParseUint(gen, 16, 32)
	return term{Epoch: e, Gen: uint32(g)}, err == nil
}

func parseSegName(name string) (segID, bool) {
	base, ok := strings.CutSuffix(name, segSuffix)
	if !ok {
		return segID{}, false
	}
	number, rest, ok := strings.Cut(base, "-")
	if !ok {
		return segID{}, false
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n == 0 {
		return segID{}, false
	}
	t, ok := parseTerm(rest)
	id := segID{Number: n, term: t}
	return id, ok && id.name() == name
}

// link points to the segment before, and says how much of it counts.
type link struct {
	segID
	Length int64 `json:"length"`
}

// reign is a term, the number of its first segment, and how much of the one
// before counts.
type reign struct {
	term
	Base uint64 `json:"base"`
	Cut  int64  `json:"cut"`
}

// header starts a segment.
type header struct {
	ID segID `json:"id"`
	// Prev is the segment before when this one was made; its zero is none.
	Prev link `json:"prev"`
	// Lineage holds every term that the log consists of, oldest first; the
	// last is the segment's own. A term's segments count up to the next's
	// base.
	Lineage []reign `json:"lineage"`
	// Start is the place at which the segment starts.
	Start state `json:"start"`
	// First is the time of its first frame.
	First stamp `json:"first"`
	// Truncated says that the cap had dropped something before.
	Truncated bool `json:"truncated,omitempty"`

	// size is where the frames start.
	size int64
}

func (h *header) encode() ([]byte, error) {
	body, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode segment header: %w", err)
	}
	b := append([]byte(magic), make([]byte, 8)...)
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[len(magic)+4:], uint32(len(body)))
	binary.LittleEndian.PutUint32(b[len(magic):], crc32.Checksum(b[len(magic)+4:], castagnoli))
	return b, nil
}

var errBadHeader = errors.New("the segment's header is incomplete or damaged")

// readHeader reads and checks the header of the segment id.
func readHeader(f io.ReaderAt, id segID) (*header, error) {
	first := make([]byte, 1024)
	n, err := f.ReadAt(first, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	b := first[:n]
	if len(b) < headPrefix || !bytes.HasPrefix(b, []byte(magic)) {
		return nil, errBadHeader
	}
	length := binary.LittleEndian.Uint32(b[len(magic)+4:])
	if length > maxHeader {
		return nil, errBadHeader
	}
	size := headPrefix + int(length)
	if size > len(b) {
		b = make([]byte, size)
		if n, err := f.ReadAt(b, 0); n < size {
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			return nil, errBadHeader
		}
	}
	b = b[:size]
	if binary.LittleEndian.Uint32(b[len(magic):]) != crc32.Checksum(b[len(magic)+4:], castagnoli) {
		return nil, errBadHeader
	}
	h := &header{size: int64(size)}
	if err := json.Unmarshal(b[headPrefix:], h); err != nil {
		return nil, errBadHeader
	}
	if h.ID != id || !h.Start.valid() || len(h.Lineage) == 0 || h.Lineage[len(h.Lineage)-1].term != id.term {
		return nil, errBadHeader
	}
	return h, nil
}

// counts reports whether a segment belongs to the log of this lineage.
func counts(lineage []reign, id segID) bool {
	for i, r := range lineage {
		if r.term == id.term {
			return id.Number >= r.Base && (i+1 == len(lineage) || id.Number < lineage[i+1].Base)
		}
	}
	return false
}

// extend returns the lineage in which a term takes over with the number base,
// behind the first cut bytes of the segment before.
func extend(lineage []reign, t term, base uint64, cut int64) []reign {
	out := make([]reign, 0, len(lineage)+1)
	for _, r := range lineage {
		if r.Base < base && r.term != t {
			out = append(out, r)
		}
	}
	return append(out, reign{term: t, Base: base, Cut: cut})
}

// folder is what an attempt's folder holds at one moment.
type folder struct {
	// chain holds the headers of the segments that count, in order. Numbers
	// are missing where the cap dropped segments.
	chain []*header
	// stray are the segments that don't count.
	stray []segID
	// claims are the terms that have a checkpoint file, in order.
	claims []term
	// top is the highest term of any file.
	top term
}

// headers keeps what was read of segments, which never changes once valid.
type headers map[segID]*header

// look lists an attempt's folder. It returns an error of fs.ErrNotExist when
// there is none.
func (s *Store) look(dir string, known headers) (folder, error) {
	var d folder
	entries, err := s.fs.ReadDir(dir)
	if err != nil {
		return d, err
	}
	var ids []segID
	for _, e := range entries {
		if id, ok := parseSegName(strings.TrimSuffix(e.Name(), packSuffix)); ok {
			ids = append(ids, id)
		} else if t, ok := parseClaim(e.Name()); ok {
			d.claims = append(d.claims, t)
		}
	}
	slices.SortFunc(d.claims, term.compare)
	if n := len(d.claims); n > 0 {
		d.top = d.claims[n-1]
	}
	// The newest valid segment decides which others count.
	slices.SortFunc(ids, func(a, b segID) int {
		if c := a.compare(b.term); c != 0 {
			return c
		}
		return int(int64(a.Number - b.Number))
	})
	ids = slices.Compact(ids) // both forms are there while one is packed
	if n := len(ids); n > 0 && ids[n-1].compare(d.top) > 0 {
		d.top = ids[n-1].term // a power failure may leave it without its claim
	}
	var lineage []reign
	for i := len(ids) - 1; i >= 0; i-- {
		id := ids[i]
		if lineage != nil && !counts(lineage, id) {
			d.stray = append(d.stray, id)
			continue
		}
		h, err := s.header(dir, id, known)
		switch {
		case errors.Is(err, errBadHeader) || isMissing(err):
			d.stray = append(d.stray, id)
			continue
		case err != nil:
			return d, err
		}
		if lineage == nil {
			lineage = h.Lineage
		}
		d.chain = append(d.chain, h)
	}
	slices.SortFunc(d.chain, func(a, b *header) int { return int(int64(a.ID.Number - b.ID.Number)) })
	for id := range known {
		if !slices.Contains(ids, id) {
			delete(known, id)
		}
	}
	return d, nil
}

func (s *Store) header(dir string, id segID, known headers) (*header, error) {
	if h := known[id]; h != nil {
		return h, nil
	}
	f, _, err := s.openSegment(dir, id)
	if err != nil {
		return nil, err
	}
	h, err := readHeader(f, id)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	known[id] = h
	return h, nil
}

// seek returns the index of the last segment that starts at or before the
// place, and -1 when there is none.
func seek(chain []*header, place *state) int {
	for i := len(chain) - 1; i >= 0; i-- {
		if place.holds(&chain[i].Start) {
			return i
		}
	}
	return -1
}

// lengthOf returns how much of a segment of the chain counts, or -1 when that
// is all there is of it.
func lengthOf(chain []*header, i int) int64 {
	if i+1 < len(chain) && chain[i+1].Prev.segID == chain[i].ID {
		return chain[i+1].Prev.Length
	}
	// The cap may have dropped the one that took over.
	for _, r := range chain[len(chain)-1].Lineage {
		if r.Base == chain[i].ID.Number+1 && r.term != chain[i].ID.term {
			return r.Cut
		}
	}
	return -1
}

// limit is how much of a segment of the chain counts, where c is the log's newest
// checkpoint; -1 for as much as there is or will be.
func (d *folder) limit(i int, c *checkpoint) int64 {
	if i == len(d.chain)-1 && c.final() && c.Last != nil && c.Last.segID == d.chain[i].ID {
		return c.Last.Length
	}
	return lengthOf(d.chain, i)
}

// parseClaim reads the name of a term's checkpoint file.
func parseClaim(name string) (term, bool) {
	base, ok := strings.CutSuffix(name, claimSuffix)
	if !ok {
		return term{}, false
	}
	return parseTerm(base)
}
