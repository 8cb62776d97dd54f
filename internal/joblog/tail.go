package joblog

import (
	"bytes"
	"errors"
)

// tail returns the place from which on the last n lines are shown. It reads
// segments from the last on backwards, one more than it takes to find the
// lines' ends.
func (r *reader) tail(d folder, n int) (state, error) {
	last := len(d.chain) - 1
	var end state
	for i := last; i >= 0; i-- {
		ends, place, err := r.lineEnds(d, i, -1)
		if err != nil {
			return state{}, err
		}
		if i == last {
			if n == 0 {
				return place, nil
			}
			end = place
			for j := range end.Marks {
				if m := &end.Marks[j]; r.mask.has(m.Stream) && m.Units > m.Line && n > 0 {
					n-- // a line that has not ended
				}
			}
		}
		if ends < n {
			n -= ends
			continue
		}
		_, place, err = r.lineEnds(d, i, ends-n)
		if err != nil {
			return state{}, err
		}
		for j := range place.Marks {
			place.Marks[j].Units = place.Marks[j].Line
		}
		return place, nil
	}
	return newState(), nil
}

// lineEnds counts the ends of lines in a segment, and returns the place behind
// the given number of them, or at the end of the segment when it is negative.
func (r *reader) lineEnds(d folder, i, stop int) (int, state, error) {
	h := d.chain[i]
	place := h.Start.clone()
	c, err := r.s.scan(r.dir, h, d.limit(i, r.mark))
	if err != nil {
		return 0, place, err
	}
	ends := 0
	var f frame
	for ends != stop {
		status, err := c.next(&f)
		if err != nil {
			return 0, place, errors.Join(err, c.close())
		}
		if status != frameOK {
			break
		}
		if f.kind != kindEntry || !r.mask.has(f.stream) {
			if place.advance(&f) != nil {
				break
			}
			continue
		}
		k := bytes.Count(f.data, []byte{'\n'})
		if f.stripped() {
			k++
		}
		if stop >= 0 && ends+k > stop {
			cutAt(&place, &f, stop-ends)
			ends = stop
			break
		}
		ends += k
		place.entry(&f)
	}
	return ends, place, c.close()
}

// cutAt moves place behind the first n ends of lines of an entry.
func cutAt(place *state, f *frame, n int) {
	part := *f
	part.flags &^= flagStripped
	end := 0
	for ; n > 0; n-- {
		end += bytes.IndexByte(f.data[end:], '\n') + 1
	}
	part.data = f.data[:end]
	place.entry(&part)
}
